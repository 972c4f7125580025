use std::collections::BTreeSet;

use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Value, json};

use super::*;
use crate::crd::V1ALPHA2_SCHEMA;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::schema_validation;

fn document(example: &Example) -> Value {
    let spec: Value = serde_saphyr::from_str(example.spec).unwrap();
    json!({
        "apiVersion": crate::API_VERSION_V1ALPHA2,
        "kind": crate::KIND,
        "metadata": { "name": example.name },
        "spec": spec,
    })
}

/// The fields that the schema rejects.
fn rejected_by_schema(document: &Value) -> Vec<String> {
    let mut diagnostics = Collector::default();
    let schema = &V1ALPHA2_SCHEMA["properties"]["spec"];
    schema_validation::validate(
        &mut document["spec"].clone(),
        schema,
        &FieldPath::spec(),
        &mut diagnostics,
    );
    diagnostics
        .errors
        .into_iter()
        .map(|error| error.field.into())
        .collect()
}

/// The messages of the violated CEL rules of the CustomResourceDefinition.
fn rejected_by_crd(schema: &CompiledSchema, document: &Value) -> Vec<String> {
    let errors = Validator::new()
        .validate_compiled(schema, document, None)
        .err();
    errors
        .into_iter()
        .flat_map(|errors| errors.into_vec())
        .map(|error| error.to_string())
        .collect()
}

#[test]
fn each_example_is_rejected_by_the_layer_of_its_rule_and_by_no_earlier_layer() {
    let mut count = 0;
    let compiled = compile_schema(&V1ALPHA2_SCHEMA);
    for rule in rules() {
        assert!(!rule.examples.is_empty(), "{} has no example", rule.id);
        for example in rule.examples {
            count += 1;
            let document = document(example);
            let report = crate::check_document(document.clone());
            let errors = report.result.expect_err(example.spec);
            let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
            assert!(
                fields.contains(&example.field),
                "{}: {}\n{errors}",
                rule.id,
                example.spec
            );
            let schema = rejected_by_schema(&document);
            if rule.layer == Layer::Schema {
                assert!(
                    schema.iter().any(|field| field == example.field),
                    "{}: {schema:?}",
                    example.spec
                );
                continue;
            }
            assert_eq!(schema, [""; 0], "{}", example.spec);
            let crd = rejected_by_crd(&compiled, &document);
            if rule.layer == Layer::Crd {
                let message = format!("{}; {}", rule.problem, rule.fix);
                assert!(
                    crd.iter().any(|error| error.contains(&message)),
                    "{}: {crd:?}",
                    example.spec
                );
            } else {
                assert_eq!(crd, [""; 0], "{}", example.spec);
            }
        }
    }
    assert!(count >= 60, "{count}");
}

#[test]
fn each_example_violates_one_rule_only() {
    for rule in rules() {
        for example in rule.examples {
            let errors = crate::check_document(document(example))
                .result
                .expect_err(example.spec);
            assert_eq!(errors.len(), 1, "{}: {}\n{errors}", rule.id, example.spec);
        }
    }
}

#[test]
fn ids_are_unique_and_each_expression_belongs_to_its_layer() {
    let ids: BTreeSet<_> = rules().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rules().count());
    for rule in rules() {
        let is_consistent = match rule.expression {
            Some(Expression::Crd { .. }) => rule.layer == Layer::Crd,
            Some(Expression::Policy { .. } | Expression::PolicyPerApi { .. }) => {
                rule.layer == Layer::Policy
            }
            None => matches!(rule.layer, Layer::Schema | Layer::Webhook),
        };
        assert!(is_consistent, "{}", rule.id);
    }
}

#[test]
fn a_message_does_not_contain_a_secret_value() {
    let spec = "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: hunter2, secretRefs: {a: hunter2}}}}";
    let errors = crate::check_document(document(&example(spec, "")))
        .result
        .unwrap_err()
        .to_string();
    assert!(!errors.contains("hunter2"), "{errors}");
}

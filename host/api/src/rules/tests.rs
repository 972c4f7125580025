use std::collections::BTreeSet;

use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Value, json};

use super::*;
use crate::crd::V1ALPHA2_SCHEMA;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::structure;

fn document(example: &Example) -> Value {
    let spec: Value = serde_saphyr::from_str(example.spec).unwrap();
    json!({
        "apiVersion": crate::API_VERSION_V1ALPHA2,
        "kind": crate::KIND,
        "metadata": { "name": example.name },
        "spec": spec,
    })
}

/// The places that the schema refuses.
fn refused_by_schema(document: &Value) -> Vec<String> {
    let mut diagnostics = Collector::default();
    let schema = &V1ALPHA2_SCHEMA["properties"]["spec"];
    structure::compare(
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

/// The messages of the definition's rules that do not hold.
fn refused_by_crd(schema: &CompiledSchema, document: &Value) -> Vec<String> {
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
fn each_bad_resource_is_refused_where_the_table_says_and_by_no_earlier_layer() {
    let mut count = 0;
    let compiled = compile_schema(&V1ALPHA2_SCHEMA);
    for rule in rules() {
        assert!(!rule.examples.is_empty(), "{} has no example", rule.id);
        for example in rule.examples {
            count += 1;
            let document = document(example);
            let report = crate::review(document.clone());
            let said = report.result.expect_err(example.spec);
            let fields: Vec<_> = said.iter().map(|error| error.field.as_str()).collect();
            assert!(
                fields.contains(&example.field),
                "{}: {}\n{said}",
                rule.id,
                example.spec
            );
            let schema = refused_by_schema(&document);
            if rule.layer == Layer::Schema {
                assert!(
                    schema.iter().any(|field| field == example.field),
                    "{}: {schema:?}",
                    example.spec
                );
                continue;
            }
            assert_eq!(schema, [""; 0], "{}", example.spec);
            let crd = refused_by_crd(&compiled, &document);
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
fn each_bad_resource_breaks_one_rule_only() {
    for rule in rules() {
        for example in rule.examples {
            let said = crate::review(document(example))
                .result
                .expect_err(example.spec);
            assert_eq!(said.len(), 1, "{}: {}\n{said}", rule.id, example.spec);
        }
    }
}

#[test]
fn ids_are_unique_and_each_layer_asks_in_its_own_way() {
    let ids: BTreeSet<_> = rules().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rules().count());
    for rule in rules() {
        let asks = match rule.expression {
            Some(Expression::Crd { .. }) => rule.layer == Layer::Crd,
            Some(Expression::Policy { .. } | Expression::PolicyPerApi { .. }) => {
                rule.layer == Layer::Policy
            }
            None => matches!(rule.layer, Layer::Schema | Layer::Webhook),
        };
        assert!(asks, "{}", rule.id);
    }
}

#[test]
fn a_message_repeats_no_secret() {
    let spec = "{distribution: {name: starter}, providers: {inference: {provider: vllm, apiKey: hunter2, secretRefs: {a: hunter2}}}}";
    let said = crate::review(document(&example(spec, "")))
        .result
        .unwrap_err()
        .to_string();
    assert!(!said.contains("hunter2"), "{said}");
}

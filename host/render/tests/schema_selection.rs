//! Selecting the schema from the detection of several plugins.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod native;

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints, Role, ServedSchema,
};
use llsd_adapter_sdk::{Answer, Candidate, Detection, Diagnostic};
use llsd_render::adapter::{Adapter, Fault, Response};
use llsd_render::{GenerateError, Inputs, PodContext, SchemaError, SchemaSource, generate};
use native::Native;
use serde_json::{Value, json};

/// A plugin that always detects the same, and generates nothing.
struct Fixed {
    description: Description,
    detection: Detection,
}

impl Fixed {
    fn new(schema: &str, detection: Detection) -> Self {
        let served = ServedSchema {
            id: schema.to_owned(),
            product: "acme".to_owned(),
            from: "1.0.0".to_owned(),
            before: None,
            role: Role::Current,
        };
        let description = Description {
            name: schema.to_owned(),
            version: "1.0.0".to_owned(),
            vendor: String::new(),
            shapes: Vec::new(),
            schemas: vec![served],
            apis: BTreeMap::new(),
            providers: BTreeMap::new(),
            capabilities: Vec::new(),
        };
        Self {
            description,
            detection,
        }
    }

    fn one(schema: &str, points: Option<u32>) -> Self {
        Self::new(schema, Detection::One(candidate(schema, points)))
    }

    fn one_of(schema: &str, points: Option<u32>) -> Self {
        Self::new(schema, Detection::OneOf(vec![candidate(schema, points)]))
    }
}

fn candidate(schema: &str, points: Option<u32>) -> String {
    let candidate = Candidate {
        schema: schema.to_owned(),
        points,
        ..Candidate::default()
    };
    match points {
        Some(_) => candidate.to_text(),
        None => schema.to_owned(),
    }
}

fn response<T>(output: T) -> Response<T> {
    Response {
        output,
        fuel: 0,
        input: String::new(),
    }
}

impl Adapter for Fixed {
    fn description(&self) -> &Description {
        &self.description
    }

    fn digest(&self) -> &str {
        "fixed"
    }

    fn is_schema_adapter(&self) -> bool {
        true
    }

    fn detect(&self, _: &Value, _: &Hints) -> Result<Response<Detection>, Fault> {
        Ok(response(self.detection.clone()))
    }

    fn expand(&self, _: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault> {
        Ok(response(Err(vec![Diagnostic::error(
            "x", "", "no", "none",
        )])))
    }

    fn assemble(&self, _: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault> {
        Ok(response(Err(vec![Diagnostic::error(
            "x", "", "no", "none",
        )])))
    }
}

/// The selected schema, or the candidates of the question.
fn selected(adapters: &[&dyn Adapter], base: &Value) -> Result<String, Vec<String>> {
    let document = json!({
        "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
        "metadata": {"name": "a"},
        "spec": {"distribution": {"name": "starter"}, "disabled": ["eval"]},
    });
    let checked = llsd_api::check_document(document).result.unwrap();
    let inputs = Inputs {
        checked: &checked,
        base,
        hints: &Hints::default(),
        running_release: None,
        pod_context: &PodContext::default(),
    };
    match generate(adapters, &inputs) {
        Ok(generated) => Ok(generated.schema.id),
        Err(GenerateError::Rejected { schema, .. }) => {
            let schema = schema.unwrap();
            assert_eq!(schema.source, SchemaSource::Detected);
            Ok(schema.id)
        }
        Err(GenerateError::Schema(SchemaError::Ambiguous(candidates))) => {
            Err(candidates.into_iter().map(|one| one.schema).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

/// Issue H, wanted 1.
#[test]
fn a_schema_is_selected_only_if_its_plugin_is_certain_and_it_clearly_beats_all_others() {
    let question = |ids: &[&str]| Err(ids.iter().map(ToString::to_string).collect());
    let one = |points| Fixed::one("acme/1", points);
    let one_of = |points| Fixed::one_of("acme/1", points);
    let other = |points| Fixed::one("other/1", points);
    let other_of = |points| Fixed::one_of("other/1", points);
    let both = question(&["acme/1", "other/1"]);
    for (case, first, second, expected) in [
        ("only one", one(Some(5)), None, Ok("acme/1".to_owned())),
        ("an older plugin", one(None), None, Ok("acme/1".to_owned())),
        (
            "other plugins may read it, which are not installed",
            one_of(Some(0)),
            None,
            question(&["acme/1"]),
        ),
        (
            "clearly better",
            one(Some(1)),
            Some(other(Some(3))),
            Ok("acme/1".to_owned()),
        ),
        (
            "clearly better than an uncertain one",
            one(Some(0)),
            Some(other_of(Some(1))),
            Ok("acme/1".to_owned()),
        ),
        (
            "little better",
            one(Some(1)),
            Some(other(Some(2))),
            both.clone(),
        ),
        (
            "better, but not certain",
            one_of(Some(0)),
            Some(other_of(Some(9))),
            both.clone(),
        ),
    ] {
        let mut adapters: Vec<&dyn Adapter> = vec![&first];
        if let Some(second) = &second {
            adapters.push(second);
        }
        assert_eq!(selected(&adapters, &json!({})), expected, "{case}");
    }
    // A plugin that does not weigh is neither preferred nor outvoted.
    let (weighed, unweighed) = (one(Some(0)), other(None));
    assert!(selected(&[&weighed, &unweighed], &json!({})).is_err());
}

/// Issue H: without the adapter of ogx, a file that 0.7 and ogx 0.8 read alike was taken for 0.7.
#[test]
fn a_file_that_a_dialect_without_a_plugin_reads_alike_is_a_question() {
    let case =
        include_str!("../../../plugins/llama-stack-0.7/tests/golden/0.7-minimal/request.json");
    let case: Value = serde_json::from_str(case).unwrap();
    let found = selected(&[&Native::new()], &case["request"]["base"]);
    assert_eq!(found, Err(vec!["llama-stack/0.7".to_owned()]));
}

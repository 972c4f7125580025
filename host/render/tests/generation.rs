//! Generation with a real adapter, compiled natively: every sample, and what is refused.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod native;

use std::path::Path;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::Checked;
use llsd_api::checked::{ConfigSource, ServerSource};
use llsd_render::{
    Generated, Inputs, Reason, Refusal, Surroundings, distributions, generate, yaml,
};
use native::Native;
use serde_json::Value;

/// The resource among the documents of a file.
fn checked(text: &str) -> Checked {
    let documents = text.split("\n---\n").map(|one| yaml::read(one).unwrap());
    let ours = |one: &Value| one["kind"] == llsd_api::KIND;
    let document = documents.into_iter().find(ours).unwrap();
    llsd_api::review(document).result.unwrap()
}

fn generated(checked: &Checked, schema: Option<&str>) -> Result<Generated, Refusal> {
    let hints = Hints {
        schema: schema.map(str::to_owned),
        ..Hints::default()
    };
    generated_with(checked, &hints)
}

fn generated_with(checked: &Checked, hints: &Hints) -> Result<Generated, Refusal> {
    let starter = &distributions::builtin()["starter"];
    let base: Value = yaml::read(starter.base.as_deref().unwrap()).unwrap();
    let inputs = Inputs {
        checked,
        base: &base,
        hints,
        surroundings: &Surroundings::with_unread_images(checked),
    };
    generate(&[&Native::new()], &inputs)
}

#[test]
fn every_sample_generates_and_always_the_same() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut count = 0;
    for entry in std::fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let checked = checked(&std::fs::read_to_string(&path).unwrap());
        let is_of_starter = checked.server == ServerSource::Named("starter".to_owned());
        let is_generated = matches!(checked.config_source, ConfigSource::Generated { .. });
        if !(is_of_starter && is_generated) {
            continue;
        }
        let first = generated(&checked, None).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let second = generated(&checked, Some("llama-stack/0.7")).unwrap();
        assert_eq!(first.yaml, second.yaml, "{path:?}");
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_release_decides_however_it_is_written_and_what_is_no_release_decides_nothing() {
    let checked = checked(include_str!("../../../samples/minimal.yaml"));
    let decided = |version: &str| {
        let hints = Hints {
            server_version: Some(version.to_owned()),
            ..Hints::default()
        };
        generated_with(&checked, &hints).map(|generated| generated.reason)
    };
    for version in ["0.7.1", "v0.7.1", " 0.7.1\n", "0.7.3rc1"] {
        assert_eq!(
            decided(version).unwrap(),
            Reason::ServerVersion,
            "{version}"
        );
    }
    for version in ["latest", "main", ""] {
        assert_eq!(decided(version).unwrap(), Reason::Detected, "{version}");
    }
    let refused = decided("v9.9").unwrap_err();
    assert!(matches!(refused, Refusal::Undecided(_)), "{refused}");
}

#[test]
fn what_the_adapter_refuses_and_what_nobody_serves_are_told_apart() {
    let spec = |provider: &str| {
        checked(&format!(
            "{{apiVersion: llamastack.io/v1alpha2, kind: LlamaStackDistribution, metadata: {{name: a}}, \
             spec: {{distribution: {{name: starter}}, providers: {{inference: {{provider: {provider}}}}}}}}}"
        ))
    };
    let Err(Refusal::Rejected(found)) = generated(&spec("vlm"), None) else {
        panic!("no provider has that type");
    };
    assert_eq!(found[0].field, "spec.providers.inference.provider");
    let refused = generated(&spec("vllm"), Some("acme/1.0")).unwrap_err();
    assert!(matches!(refused, Refusal::Undecided(_)), "{refused}");
    assert!(refused.to_string().contains("acme/1.0"), "{refused}");
}

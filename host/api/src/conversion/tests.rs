mod edits;
mod lifted;
mod properties;
mod round_trips;

use serde_json::{Map, json};

use super::*;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn resource(version: Version, spec: Value) -> Value {
    json!({ "apiVersion": version.api_version(), "kind": KIND, "metadata": { "name": "my-llsd" }, "spec": spec })
}

fn v1alpha1(spec: &str) -> Value {
    resource(Version::V1Alpha1, yaml(spec))
}

fn v1alpha2(spec: &str) -> Value {
    resource(Version::V1Alpha2, yaml(spec))
}

fn up(document: &Value) -> Value {
    convert(document.clone(), Version::V1Alpha2).unwrap()
}

fn down(document: &Value) -> Value {
    convert(document.clone(), Version::V1Alpha1).unwrap()
}

fn annotation<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document["metadata"]["annotations"][name].as_str()
}

#[test]
fn an_unsupported_document_is_rejected() {
    let error = |document: Value| {
        convert(document, Version::V1Alpha2)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(json!([])),
        "resource: must be an object; send a LlamaStackDistribution"
    );
    assert_eq!(
        error(json!({ "kind": "Pod" })),
        "kind: \"Pod\" cannot be converted; send a LlamaStackDistribution"
    );
    let wrong = json!({ "kind": KIND, "apiVersion": "llamastack.io/v1" });
    assert_eq!(
        error(wrong),
        "apiVersion: \"llamastack.io/v1\" is not a version of LlamaStackDistribution; use llamastack.io/v1alpha1 or llamastack.io/v1alpha2"
    );
    let same = v1alpha2("{distribution: {name: s}}");
    assert_eq!(up(&same), same);
}

#[test]
fn v1alpha1_path_returns_the_field_of_v1alpha1() {
    let paths = [
        (
            "spec.networking.port",
            Some("spec.server.containerSpec.port"),
        ),
        (
            "spec.networking.expose.hostname",
            Some("spec.network.exposeRoute.hostname"),
        ),
        (
            "spec.workload.overrides.env[1].name",
            Some("spec.server.containerSpec.env[1].name"),
        ),
        (
            "spec.distribution.name",
            Some("spec.server.distribution.name"),
        ),
        ("spec.distribution", Some("spec.server.distribution")),
        (
            "spec.workload.storage.size",
            Some("spec.server.storage.size"),
        ),
        ("spec.providers.inference", None),
        ("spec.networking.portal", None),
    ];
    for (new, old) in paths {
        assert_eq!(v1alpha1_path(new).as_deref(), old, "{new}");
    }
}

//! The CustomResourceDefinitions, built from the types.

use std::sync::LazyLock;

use kube::CustomResourceExt;
use serde_json::Value;

use crate::v1alpha2;

/// The structural schema of v1alpha2, as the API server will hold it.
pub(crate) static V1ALPHA2_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| schema(&v1alpha2::Distribution::crd()));

fn schema(
    crd: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> Value {
    let crd = serde_json::to_value(crd).unwrap_or_default();
    let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    forbid_null(&mut schema);
    schema
}

/// An optional Rust field says `nullable`; with it, `has(self.a)` is true for `a: null`, and a
/// rule about absence fails. No field of ours means anything by null.
fn forbid_null(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("nullable") == Some(&Value::Bool(true)) {
                map.remove("nullable");
            }
            map.values_mut().for_each(forbid_null);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        _ => {}
    }
}

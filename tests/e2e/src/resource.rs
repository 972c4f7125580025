//! Resources for tests, and readers of their status.

use llsd_api::Distribution;
use llsd_api::v1alpha2::Phase;
use serde_json::{Value, json};

/// The base configuration of the distribution `starter`.
pub const STARTER: &str = include_str!("../../../host/render/distributions/starter.yaml");

/// The phase of a resource.
pub fn phase(cr: &Distribution) -> Option<Phase> {
    cr.status.as_ref()?.phase
}

/// A condition of a resource as `(status, reason, message)`.
pub fn condition(cr: &Distribution, kind: &str) -> Option<(String, String, String)> {
    let conditions = &cr.status.as_ref()?.conditions;
    let found = conditions.iter().find(|one| one.type_ == kind)?;
    Some((
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    ))
}

/// Whether a condition of a resource has a status: `True`, `False` or `Unknown`.
pub fn has_condition(cr: &Distribution, kind: &str, status: &str) -> bool {
    condition(cr, kind).is_some_and(|(found, ..)| found == status)
}

/// The name of the ConfigMap with a resource's generated configuration.
pub fn config_map(cr: &Distribution) -> String {
    cr.status
        .as_ref()
        .unwrap()
        .config_generation
        .as_ref()
        .unwrap()
        .config_map_name
        .clone()
        .unwrap()
}

/// `samples/minimal.yaml`.
pub fn minimal() -> Value {
    serde_saphyr::from_str(include_str!("../../../samples/minimal.yaml")).unwrap()
}

/// `samples/minimal.yaml` with another name.
pub fn named(name: &str) -> Value {
    let mut resource = minimal();
    resource["metadata"]["name"] = name.into();
    resource
}

/// `samples/minimal.yaml` with another name and an image instead of a distribution name.
pub fn on_image(name: &str, image: &str) -> Value {
    let mut resource = named(name);
    resource["spec"]["distribution"] = json!({ "image": image });
    resource
}

/// A base configuration that only `plugins/example-adapter` serves, if its dialect is stated.
pub fn acme_base() -> String {
    base_of(include_str!(
        "../../../plugins/example-adapter/tests/golden/minimal/request.json"
    ))
}

/// A base configuration of ogx 1.x.
pub fn ogx_base() -> String {
    base_of(include_str!(
        "../../../plugins/ogx/tests/golden/1.0-minimal/request.json"
    ))
}

/// The base configuration of a recorded request.
fn base_of(recorded: &str) -> String {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    serde_saphyr::to_string(&recorded["request"]["base"]).unwrap()
}

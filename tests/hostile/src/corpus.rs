//! The corpus of hostile inputs.

mod components;
mod documents;
mod images;
mod noise;

use serde_json::{Value, json};

use crate::Case;
use crate::fair_tenant::sample;

/// Every case.
pub fn all() -> Vec<Case> {
    let groups = [
        documents::cases(),
        images::cases(),
        components::cases(),
        noise::cases(),
    ];
    groups.into_iter().flatten().collect()
}

/// A resource with an image of the hostile registry.
fn on_image(name: &str, repository: &str) -> Value {
    let mut resource = sample(name);
    resource["spec"]["distribution"] = json!({"image": format!("{{registry}}/{repository}:1")});
    resource
}

/// A resource with a base configuration in a ConfigMap.
fn on_config_map(name: &str, config_map: &str) -> Value {
    let mut resource = sample(name);
    resource["spec"]["distribution"]["baseConfig"] = json!({"configMapName": config_map});
    resource
}

//! The distributions that a resource can refer to by name.
//!
//! The map is built in. The operator's ConfigMap can override and extend it. Its base configurations
//! are used for images without configuration labels.

pub mod settings;

use std::collections::BTreeMap;

/// A named distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDistribution {
    /// The server image.
    pub image: String,
    /// The schema of its configuration, if known.
    pub schema: Option<String>,
    /// Its base configuration as YAML, if the operator has one.
    pub base: Option<String>,
    /// The numeric user of the image, if known.
    pub user: Option<u32>,
}

/// Release of the built-in images: the last one that was published under these names.
const RELEASE: &str = "0.7.1";

/// The built-in distributions.
pub fn builtin() -> BTreeMap<String, KnownDistribution> {
    [
        (
            "starter",
            Some(include_str!("../distributions/starter.yaml")),
        ),
        (
            "remote-vllm",
            Some(include_str!("../distributions/remote-vllm.yaml")),
        ),
        (
            "postgres-demo",
            Some(include_str!("../distributions/postgres-demo.yaml")),
        ),
        ("meta-reference-gpu", None),
    ]
    .into_iter()
    .map(|(name, base)| {
        let known = KnownDistribution {
            image: format!("docker.io/llamastack/distribution-{name}:{RELEASE}"),
            schema: Some("llama-stack/0.7".to_owned()),
            base: base.map(str::to_owned),
            // The published images set no user, so they run as root.
            user: Some(0),
        };
        (name.to_owned(), known)
    })
    .collect()
}

//! The distributions that a resource can name, and what the operator knows about them.
//!
//! The map is built in and can be overridden and extended by the operator's ConfigMap. A base that
//! stands here is used when the image itself says nothing about its configuration.

use std::collections::BTreeMap;

/// A distribution as the operator knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDistribution {
    /// The image that runs.
    pub image: String,
    /// The dialect of its configuration, where known.
    pub schema: Option<String>,
    /// Its configuration as YAML text, where the operator carries one.
    pub base: Option<String>,
}

/// Release of the images that the built-in names stand for; the last one that the distributions
/// were published under these names.
const RELEASE: &str = "0.7.1";

/// The names built in.
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
        };
        (name.to_owned(), known)
    })
    .collect()
}

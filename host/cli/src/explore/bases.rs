//! A base configuration for each dialect, for the question whether other releases accept a resource.
//!
//! The base configuration of a resource is written in the dialect of its own server. Another release
//! comes with another one, so a resource is generated for it over an example in its dialect.

use std::collections::BTreeSet;

use llsd_adapter_sdk::documents::Hints;
use llsd_render::{distributions, yaml};

use crate::generation::LoadedBase;

/// The examples: the dialect and the YAML. The one for llama-stack 0.7 is the built-in `starter`.
const EXAMPLES: [(&str, &str); 7] = [
    ("ogx/1.0", include_str!("bases/ogx-1.0.yaml")),
    ("ogx/0.8", include_str!("bases/ogx-0.8.yaml")),
    (
        "llama-stack/0.5",
        include_str!("bases/llama-stack-0.5.yaml"),
    ),
    (
        "llama-stack/0.4",
        include_str!("bases/llama-stack-0.4.yaml"),
    ),
    (
        "llama-stack/0.3",
        include_str!("bases/llama-stack-0.3.yaml"),
    ),
    (
        "llama-stack/0.2.13",
        include_str!("bases/llama-stack-0.2.13.yaml"),
    ),
    (
        "llama-stack/0.1.3",
        include_str!("bases/llama-stack-0.1.3.yaml"),
    ),
];

/// The example in a dialect. `None` for the dialect of someone else's plugin.
pub(super) fn example(schema: &str) -> Option<LoadedBase> {
    let known = EXAMPLES.iter().find(|(id, _)| *id == schema);
    let text = match known {
        Some((_, text)) => (*text).to_owned(),
        None => {
            let starter = distributions::builtin().remove("starter")?;
            starter
                .base
                .filter(|_| starter.schema.as_deref() == Some(schema))?
        }
    };
    Some(LoadedBase {
        config: yaml::read(&text).ok()?,
        hints: Hints::default(),
        image_variables: BTreeSet::new(),
    })
}

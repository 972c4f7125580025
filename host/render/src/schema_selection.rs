//! Which dialect a base is written in, and which plugin serves it.
//!
//! First answer wins: a schema that somebody stated, then the release of the server, then what the
//! plugins recognise in the base. Several candidates are a question to the user, never a guess.

use llsd_adapter_sdk::Detection;
use llsd_adapter_sdk::documents::{Hints, ServedSchema};
use serde_json::Value;

use crate::adapter::Adapter;
use crate::generate::Refusal;

/// The dialect, the plugin that serves it, and why.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    /// The plugin.
    pub(crate) adapter: &'a dyn Adapter,
    /// The dialect.
    pub(crate) schema: &'a ServedSchema,
    /// What decided.
    pub(crate) reason: Reason,
}

/// What decided about the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The resource, the distribution map or a label names the schema.
    Stated,
    /// The release of the server package is known.
    ServerVersion,
    /// A plugin recognised the base.
    Detected,
}

/// Why no dialect was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// Nobody serves what was named, or nobody recognises the base.
    #[error("Unsupported config.yaml version {found}. Supported versions: {}", .supported.join(", "))]
    Unsupported {
        /// The schema id or release named, or what the base looks like.
        found: String,
        /// Every schema id of the installed plugins.
        supported: Vec<String>,
    },
    /// The base could be written in several.
    #[error("the base configuration could be written in any of {}; name one in spec.distribution.schema, or label the image with io.llamastack.config.schema", .0.join(", "))]
    Ambiguous(Vec<String>),
}

/// Chooses among the plugins; where two serve a schema, the first of them.
pub(crate) fn choose<'a>(
    adapters: &[&'a dyn Adapter],
    base: &Value,
    hints: &Hints,
) -> Result<Choice<'a>, Refusal> {
    let served = || {
        adapters
            .iter()
            .copied()
            .filter(|adapter| adapter.is_schema_adapter())
            .flat_map(|adapter| {
                adapter
                    .description()
                    .schemas
                    .iter()
                    .map(move |schema| (adapter, schema))
            })
    };
    let unsupported = |found: &str| {
        Refusal::Undecided(Undecided::Unsupported {
            found: found.to_owned(),
            supported: unique(served().map(|(_, schema)| schema.id.clone())),
        })
    };
    let find = |reason, is: &dyn Fn(&ServedSchema) -> bool| {
        served()
            .find(|(_, schema)| is(schema))
            .map(|(adapter, schema)| Choice {
                adapter,
                schema,
                reason,
            })
    };

    if let Some(stated) = &hints.schema {
        return find(Reason::Stated, &|schema| schema.id == *stated)
            .ok_or_else(|| unsupported(stated));
    }
    // What is no number, such as `latest`, says nothing about the release.
    let numbered = |version: &&String| !release(version).is_empty();
    if let Some(version) = hints.server_version.as_ref().filter(numbered) {
        // The release alone does not say the product: llama-stack and ogx number differently, and
        // their ranges do not meet.
        if let Some(choice) = find(Reason::ServerVersion, &|schema| includes(schema, version)) {
            return Ok(choice);
        }
        return Err(unsupported(version));
    }
    let mut candidates = Vec::new();
    for adapter in adapters
        .iter()
        .filter(|adapter| adapter.is_schema_adapter())
    {
        match adapter.detect(base, hints)?.answer {
            Detection::One(id) => candidates.push(id),
            Detection::OneOf(ids) => candidates.extend(ids),
            Detection::None => {}
        }
    }
    let candidates = unique(candidates);
    match candidates.as_slice() {
        [] => Err(unsupported("(not recognised)")),
        [one] => {
            find(Reason::Detected, &|schema| schema.id == *one).ok_or_else(|| unsupported(one))
        }
        _ => Err(Undecided::Ambiguous(candidates).into()),
    }
}

/// Whether a release lies in the range of a dialect.
fn includes(schema: &ServedSchema, version: &str) -> bool {
    let version = release(version);
    let newest = schema
        .before
        .as_deref()
        .is_none_or(|before| version < release(before));
    version >= release(&schema.from) && newest
}

/// `0.7.3rc1` and `v0.7.3` count as `0.7.3`; empty: there is no number.
fn release(text: &str) -> Vec<u64> {
    text.trim()
        .trim_start_matches('v')
        .split('.')
        .map_while(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .collect()
}

fn unique(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for id in ids {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen
}

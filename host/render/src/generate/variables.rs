//! The variables of the pod: what the plugins want, and where each value comes from.
//!
//! Only names pass through here. A variable that no plugin mentions is not set, so that no pod holds
//! a secret that its configuration does not read.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Part, ReadAs, Variable};
use llsd_api::checked::{Checked, Reference};

/// A variable of the pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodVariable {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub source: ValueSource,
    /// What the server makes of the value.
    pub read_as: ReadAs,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSource {
    /// A key of a Secret.
    Secret(Reference),
    /// A part of what a key of a Secret holds; the operator takes it apart.
    Part(Reference, Part),
    /// A text.
    Literal(String),
}

/// Sorted by name, each once.
pub(super) fn resolve(
    checked: &Checked,
    wanted: impl IntoIterator<Item = Variable>,
) -> Vec<PodVariable> {
    let references: BTreeMap<&str, &Reference> = checked
        .references()
        .into_iter()
        .map(|reference| (reference.env.as_str(), reference))
        .collect();
    let mut resolved: Vec<PodVariable> = wanted
        .into_iter()
        .filter_map(
            |Variable {
                 env,
                 reference,
                 part,
                 value,
                 read_as,
             }| {
                let reference = references
                    .get(reference.as_deref().unwrap_or(&env))
                    .copied()
                    .cloned();
                let source = match (reference, part, value) {
                    (_, _, Some(text)) => ValueSource::Literal(text),
                    (Some(reference), Some(part), None) => ValueSource::Part(reference, part),
                    (Some(reference), None, None) => ValueSource::Secret(reference),
                    // The sandbox has checked that a variable names a reference or has a value.
                    (None, _, None) => return None,
                };
                Some(PodVariable {
                    name: env,
                    source,
                    read_as,
                })
            },
        )
        .collect();
    resolved.sort();
    resolved.dedup_by(|a, b| a.name == b.name);
    resolved
}

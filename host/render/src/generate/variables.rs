//! The variables of the pod: what the plugins want, and where each value comes from.
//!
//! Only names pass through here. A variable that no plugin mentions is not set, so that no pod holds
//! a secret that its configuration does not read.

use std::collections::BTreeMap;

use llsd_adapter_sdk::Diagnostic;
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

impl ValueSource {
    /// Where the resource says so.
    fn place(&self) -> Option<&str> {
        match self {
            Self::Secret(reference) | Self::Part(reference, _) => Some(reference.path.as_str()),
            Self::Literal(_) => None,
        }
    }
}

/// Sorted by name, each once. A name that two values would share is refused.
pub(super) fn resolve(
    checked: &Checked,
    wanted: impl IntoIterator<Item = Variable>,
) -> Result<Vec<PodVariable>, Vec<Diagnostic>> {
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
    let shared: Vec<Diagnostic> = resolved
        .windows(2)
        .filter_map(|pair| match pair {
            [one, other] if one.name == other.name && one.source != other.source => {
                Some(refuse(one, other))
            }
            _ => None,
        })
        .collect();
    if !shared.is_empty() {
        return Err(shared);
    }
    resolved.dedup_by(|a, b| a.name == b.name);
    Ok(resolved)
}

fn refuse(one: &PodVariable, other: &PodVariable) -> Diagnostic {
    let name = &one.name;
    let needs =
        |also: &str| format!("needs the variable {name}, which {also} needs for another value");
    // Texts sort after references.
    let (field, problem) = match (one.source.place(), other.source.place()) {
        (Some(first), Some(second)) => (second, needs(first)),
        (Some(first), None) => (first, needs("the configuration")),
        (None, _) => ("", format!("two values are asked for the variable {name}")),
    };
    Diagnostic::error(
        "shared-variable",
        field,
        problem,
        "give the provider another id, or remove one of the two",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked() -> Checked {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"},
            "spec": {
                "distribution": {"name": "starter"},
                "providers": {"inference": {"provider": "vllm", "apiKey": {"name": "s", "key": "k"}}},
                "storage": {"sql": {"type": "postgres", "connectionString": {"name": "s", "key": "dsn"}}},
            },
        });
        llsd_api::review(document).result.unwrap()
    }

    fn wanted(env: &str, reference: Option<&str>, value: Option<&str>) -> Variable {
        Variable {
            env: env.to_owned(),
            reference: reference.map(str::to_owned),
            part: None,
            value: value.map(str::to_owned),
            read_as: ReadAs::Text,
        }
    }

    #[test]
    fn a_variable_that_is_wanted_twice_for_one_value_is_set_once() {
        let key = wanted("LLSD_VLLM_API_KEY", None, None);
        let resolved = resolve(&checked(), [key.clone(), key]).unwrap();
        assert_eq!(resolved.len(), 1);
        assert_eq!(resolved[0].name, "LLSD_VLLM_API_KEY");
    }

    #[test]
    fn a_variable_that_two_values_would_share_is_refused_where_the_second_stands() {
        let key = wanted("LLSD_VLLM_API_KEY", None, None);
        let database = Variable {
            part: Some(Part::Database),
            ..wanted(
                "LLSD_VLLM_API_KEY",
                Some("LLSD_SQL_CONNECTION_STRING"),
                None,
            )
        };
        let refused = resolve(&checked(), [database, key.clone()]).unwrap_err();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].field, "spec.storage.sql.connectionString");
        assert_eq!(
            refused[0].problem,
            "needs the variable LLSD_VLLM_API_KEY, which spec.providers.inference.apiKey needs for another value"
        );
        let text = wanted("LLSD_VLLM_API_KEY", None, Some("x"));
        let refused = resolve(&checked(), [text, key]).unwrap_err();
        assert_eq!(refused[0].field, "spec.providers.inference.apiKey");
        let texts = ["x", "y"].map(|text| wanted("OTEL", None, Some(text)));
        let refused = resolve(&checked(), texts).unwrap_err();
        assert_eq!(refused[0].field, "");
    }
}

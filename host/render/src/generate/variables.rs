//! Resolves the environment variables that the plugins want to the sources of their values.
//!
//! This module handles the names of Secrets and keys, never their values. A variable that no plugin
//! wants is not set, so that a pod gets no secret that its configuration does not use.

use std::collections::BTreeMap;
use std::fmt;

use llsd_adapter_sdk::documents::{Part, ReadAs, Variable};
use llsd_api::checked::{Checked, Reference};
use llsd_api::{Diagnostic, FieldPath};
use serde::{Deserialize, Serialize};

/// An environment variable of the pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodVariable {
    /// Its name.
    pub name: String,
    /// The source of its value.
    pub source: ValueSource,
    /// How the server parses the value.
    pub read_as: ReadAs,
}

/// The source of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ValueSource {
    /// A key of a Secret.
    Secret(Reference),
    /// A part of the value of a key of a Secret, which the operator extracts.
    Part(Reference, Part),
    /// A literal string.
    Literal(String),
}

impl ValueSource {
    /// The field of the resource that contains the reference.
    fn field(&self) -> Option<&FieldPath> {
        match self {
            Self::Secret(reference) | Self::Part(reference, _) => Some(&reference.path),
            Self::Literal(_) => None,
        }
    }
}

/// Resolves the variables that the plugins want. The result is sorted by name and has each name once.
/// Fails if two values need the same name.
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
        .filter_map(|variable| resolve_one(variable, &references))
        .collect();
    resolved.sort();
    let conflicts: Vec<Diagnostic> = resolved
        .windows(2)
        .filter_map(|pair| match pair {
            [one, other] if one.name == other.name && one.source != other.source => {
                Some(conflict(one, other))
            }
            _ => None,
        })
        .collect();
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    resolved.dedup_by(|a, b| a.name == b.name);
    Ok(resolved)
}

/// `None` for a variable with neither a reference nor a value.
fn resolve_one(variable: Variable, references: &BTreeMap<&str, &Reference>) -> Option<PodVariable> {
    let Variable {
        env,
        reference,
        part,
        value,
        read_as,
    } = variable;
    let reference = references
        .get(reference.as_deref().unwrap_or(&env))
        .copied()
        .cloned();
    let source = match (reference, part, value) {
        (_, _, Some(value)) => ValueSource::Literal(value),
        (Some(reference), Some(part), None) => ValueSource::Part(reference, part),
        (Some(reference), None, None) => ValueSource::Secret(reference),
        (None, _, None) => return None,
    };
    Some(PodVariable {
        name: env,
        source,
        read_as,
    })
}

fn conflict(one: &PodVariable, other: &PodVariable) -> Diagnostic {
    let name = &one.name;
    let used_by = |user: &dyn fmt::Display| {
        format!("needs the environment variable {name}, which {user} uses for another value")
    };
    // Literals sort after references.
    let (field, problem) = match (one.source.field(), other.source.field()) {
        (Some(first), Some(second)) => (second.clone(), used_by(first)),
        (Some(first), None) => (first.clone(), used_by(&"the configuration")),
        (None, _) => (
            FieldPath::base_config(),
            format!("needs two values for the environment variable {name}"),
        ),
    };
    let fix = "give the provider another id, or remove one of the two";
    Diagnostic::error(field, problem, fix).with_code("shared-variable")
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
        llsd_api::check_document(document).result.unwrap()
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
    fn a_variable_that_is_wanted_twice_for_the_same_value_is_set_once() {
        let key = wanted("LLSD_VLLM_API_KEY", None, None);
        let resolved = resolve(&checked(), [key.clone(), key]).unwrap();
        assert_eq!(resolved.len(), 1);
        assert_eq!(resolved[0].name, "LLSD_VLLM_API_KEY");
    }

    #[test]
    fn a_variable_that_two_values_need_is_an_error_in_the_second_field() {
        let key = wanted("LLSD_VLLM_API_KEY", None, None);
        let database = Variable {
            part: Some(Part::Database),
            ..wanted(
                "LLSD_VLLM_API_KEY",
                Some("LLSD_SQL_CONNECTION_STRING"),
                None,
            )
        };
        let conflicts = resolve(&checked(), [database, key.clone()]).unwrap_err();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(
            conflicts[0].field.as_str(),
            "spec.storage.sql.connectionString"
        );
        assert_eq!(
            conflicts[0].problem,
            "needs the environment variable LLSD_VLLM_API_KEY, which spec.providers.inference.apiKey uses for another value"
        );
        let literal = wanted("LLSD_VLLM_API_KEY", None, Some("x"));
        let conflicts = resolve(&checked(), [literal, key]).unwrap_err();
        assert_eq!(
            conflicts[0].field.as_str(),
            "spec.providers.inference.apiKey"
        );
        let literals = ["x", "y"].map(|value| wanted("OTEL", None, Some(value)));
        let conflicts = resolve(&checked(), literals).unwrap_err();
        assert_eq!(conflicts[0].field, FieldPath::base_config());
    }
}

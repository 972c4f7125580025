//! Checks secret references and names the environment variables that pass them to the pod.
//!
//! This module handles names and keys of Secrets, never their values. The name of a variable depends
//! only on the field of the reference. Two fields with the same variable are an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::untyped::{self, UntypedObject};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;
use crate::rules;
use crate::v1alpha2::SecretReference;

/// Prefix of the environment variables that the operator sets.
pub(super) const VARIABLE_PREFIX: &str = "LLSD_";

/// A key of a Secret in the resource's namespace, and the variable that will hold its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// Field path of the reference.
    pub path: FieldPath,
    /// Name of the Secret.
    pub secret: String,
    /// Key in the Secret.
    pub key: String,
    /// Name of the environment variable.
    pub env: String,
}

/// A literal string, or a reference to a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StringOrReference {
    /// The literal string.
    String(String),
    /// The secret reference.
    Reference(Reference),
}

impl StringOrReference {
    /// The reference, if it is one.
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::String(_) => None,
            Self::Reference(reference) => Some(reference),
        }
    }
}

const SECRET_FIX: &str = "set the name of a Secret in the same namespace";
const KEY_FIX: &str = "set a key of the Secret";
const FIX: &str = "write {name: <secret>, key: <key in it>}";

/// The environment variable for `field` (`apiKey`, `secretRefs.fooBar`) of `owner` (a provider id,
/// `kv` or `sql`).
pub fn variable(owner: &str, field: &str) -> String {
    let field = field.strip_prefix("secretRefs.").unwrap_or(field);
    let mut name = format!("{VARIABLE_PREFIX}{}_", upper_snake(owner));
    let mut previous = ' ';
    for c in field.chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            name.push('_');
        }
        name.push_str(&upper_snake(c.encode_utf8(&mut [0; 4])));
        previous = c;
    }
    name
}

fn upper_snake(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// Reads a reference in either form. The message about a literal string does not repeat it, because
/// it may be a secret.
pub(super) fn read(
    value: &Value,
    path: &FieldPath,
    env: String,
    diagnostics: &mut Collector,
) -> Option<Reference> {
    let Value::Object(map) = value else {
        let problem = match value {
            Value::String(_) => {
                "contains a literal value, which must not be stored in a resource".to_owned()
            }
            other => format!("must be a secret reference, not {}", type_name(other)),
        };
        diagnostics.error(
            path,
            problem,
            format!("store the value in a Secret and {FIX}"),
        );
        return None;
    };
    let outer = UntypedObject::open(
        map,
        path.clone(),
        &["name", "key", "secretKeyRef"],
        diagnostics,
    );
    match outer.value("secretKeyRef") {
        None => named(&outer, path, env, diagnostics),
        Some(_) if outer.value("name").is_some() || outer.value("key").is_some() => {
            diagnostics.error(
                path,
                "sets both secretKeyRef and name or key",
                "use one of the two forms",
            );
            None
        }
        Some(Value::Object(map)) => {
            let inner = UntypedObject::open(
                map,
                path.field("secretKeyRef"),
                &["name", "key"],
                diagnostics,
            );
            named(&inner, path, env, diagnostics)
        }
        Some(other) => {
            let problem = format!("must be an object, not {}", type_name(other));
            diagnostics.error(&path.field("secretKeyRef"), problem, FIX);
            None
        }
    }
}

fn named(
    object: &UntypedObject<'_>,
    path: &FieldPath,
    env: String,
    diagnostics: &mut Collector,
) -> Option<Reference> {
    let secret = object.required_string("name", names::subdomain, SECRET_FIX, diagnostics);
    let key = object.required_string("key", names::data_key, KEY_FIX, diagnostics);
    Some(Reference {
        path: path.clone(),
        secret: secret?,
        key: key?,
        env,
    })
}

/// Checks a reference that is typed in the schema.
pub(super) fn read_typed(
    reference: &SecretReference,
    path: &FieldPath,
    env: String,
    diagnostics: &mut Collector,
) -> Option<Reference> {
    let SecretReference {
        name,
        key,
        secret_key_ref,
    } = reference;
    let (secret, key, below) = match (name, key, secret_key_ref) {
        (Some(name), Some(key), None) => (name, key, path.clone()),
        (None, None, Some(inner)) => (&inner.name, &inner.key, path.field("secretKeyRef")),
        _ => {
            diagnostics.violation(&rules::REFERENCE_FORM, path);
            return None;
        }
    };
    untyped::check_string(
        secret,
        &below.field("name"),
        names::subdomain(secret),
        SECRET_FIX,
        diagnostics,
    );
    untyped::check_string(
        key,
        &below.field("key"),
        names::data_key(key),
        KEY_FIX,
        diagnostics,
    );
    Some(Reference {
        path: path.clone(),
        secret: secret.clone(),
        key: key.clone(),
        env,
    })
}

/// Checks that no two references have the same environment variable, and that none has a `reserved`
/// one, which a plugin may derive.
pub(super) fn check_collisions<'a>(
    references: impl IntoIterator<Item = &'a Reference>,
    reserved: &BTreeMap<String, FieldPath>,
    diagnostics: &mut Collector,
) {
    let mut seen: BTreeMap<&str, &FieldPath> = reserved
        .iter()
        .map(|(env, path)| (env.as_str(), path))
        .collect();
    for reference in references {
        if let Some(first) = seen.insert(&reference.env, &reference.path) {
            let problem = format!(
                "needs the environment variable {}, which {first} already uses",
                reference.env
            );
            diagnostics.error(
                &reference.path,
                problem,
                "change the id of one of the two providers",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_named_after_its_field() {
        assert_eq!(variable("vllm", "apiKey"), "LLSD_VLLM_API_KEY");
        assert_eq!(variable("vllm-1", "host"), "LLSD_VLLM_1_HOST");
        assert_eq!(
            variable("myVllm", "secretRefs.fooBar"),
            "LLSD_MYVLLM_FOO_BAR"
        );
        assert_eq!(variable("a.b", "secretRefs.foo_bar"), "LLSD_A_B_FOO_BAR");
        assert_eq!(variable("a", "secretRefs.s3Key"), "LLSD_A_S3_KEY");
        assert_eq!(variable("a", "secretRefs.APIKey"), "LLSD_A_APIKEY");
        assert_eq!(
            variable("sql", "connectionString"),
            "LLSD_SQL_CONNECTION_STRING"
        );
    }
}

//! Secret references and the variables that carry them into the pod.
//!
//! Only names and keys pass through here, never a value. Each reference gets a variable whose name
//! depends on nothing but its place in the resource; two places that would share one are refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names;
use super::object::{self, Object};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::rules;
use crate::structure::found;
use crate::v1alpha2::SecretReference;

/// Begins the name of every variable that is ours.
pub(super) const VARIABLE_PREFIX: &str = "LLSD_";

/// A key of a Secret in the resource's namespace, and the variable that will hold its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Where the reference stands.
    pub path: FieldPath,
    /// Name of the Secret.
    pub secret: String,
    /// Key within the Secret.
    pub key: String,
    /// Name of the variable.
    pub env: String,
}

/// A text, or a reference to a Secret that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOrReference {
    /// The text itself.
    Text(String),
    /// Where to find it.
    Reference(Reference),
}

impl TextOrReference {
    /// The reference, if it is one.
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Text(_) => None,
            Self::Reference(reference) => Some(reference),
        }
    }
}

const SECRET_FIX: &str = "give the name of a Secret in the same namespace";
const KEY_FIX: &str = "give the key within the Secret";
const FIX: &str = "write {name: <secret>, key: <key in it>}";

/// The variable of `field` (`apiKey`, `secretRefs.fooBar`) of `owner` (a provider id, `kv`, `sql`).
pub fn variable(owner: &str, field: &str) -> String {
    let field = field.strip_prefix("secretRefs.").unwrap_or(field);
    let mut name = format!("{VARIABLE_PREFIX}{}_", shout(owner));
    let mut previous = ' ';
    for c in field.chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            name.push('_');
        }
        name.push_str(&shout(c.encode_utf8(&mut [0; 4])));
        previous = c;
    }
    name
}

fn shout(text: &str) -> String {
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

/// Reads a reference in either form. A text is refused without being repeated: it may be a secret.
pub(super) fn read(
    value: &Value,
    path: &FieldPath,
    env: String,
    diagnostics: &mut Collector,
) -> Option<Reference> {
    let Value::Object(map) = value else {
        let problem = match value {
            Value::String(_) => {
                "holds the value itself, which does not belong in a resource".to_owned()
            }
            other => format!("must refer to a Secret, not be {}", found(other)),
        };
        diagnostics.error(
            path,
            problem,
            format!("put the value into a Secret and {FIX}"),
        );
        return None;
    };
    let outer = Object::open(
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
                "gives both name or key and secretKeyRef",
                "keep one of the two forms",
            );
            None
        }
        Some(Value::Object(map)) => {
            let inner = Object::open(
                map,
                path.field("secretKeyRef"),
                &["name", "key"],
                diagnostics,
            );
            named(&inner, path, env, diagnostics)
        }
        Some(other) => {
            let problem = format!("must be an object, not {}", found(other));
            diagnostics.error(&path.field("secretKeyRef"), problem, FIX);
            None
        }
    }
}

fn named(
    object: &Object<'_>,
    path: &FieldPath,
    env: String,
    diagnostics: &mut Collector,
) -> Option<Reference> {
    let secret = object.required_text("name", names::subdomain, SECRET_FIX, diagnostics);
    let key = object.required_text("key", names::data_key, KEY_FIX, diagnostics);
    Some(Reference {
        path: path.clone(),
        secret: secret?,
        key: key?,
        env,
    })
}

/// Reads a reference that the schema has already given a type.
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
    object::typed_text(
        secret,
        &below.field("name"),
        names::subdomain(secret),
        SECRET_FIX,
        diagnostics,
    );
    object::typed_text(
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

/// Refuses references that would share a variable, with each other or with a name `reserved` for
/// what a plugin may derive.
pub(super) fn refuse_collisions<'a>(
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
                "needs the variable {}, which {first} needs too",
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
    fn variables_are_named_after_their_place() {
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

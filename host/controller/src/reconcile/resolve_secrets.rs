//! Step 4, resolve secrets: checks that every Secret and key that the pod needs exists and has a
//! usable value.
//!
//! In: the configuration plan, which names Secrets and keys. Out: a digest that changes with the
//! values, and the parts of connection strings, which may only be written to the derived Secret of
//! the resource; or every problem at once. No message contains a value.

mod connection_string;
mod problem;
mod required_key;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use llsd_adapter_sdk::documents::{Part, ReadAs};
use llsd_api::checked::Checked;
use llsd_api::conditions::reason;
use llsd_render::digest;
use llsd_render::objects::{ConfigPlan, DerivedValues, Owner};

use crate::cache::{ContentCache, ContentError, ConvertedType, Fingerprint, converted_type};
use problem::{ProblemKind, SecretProblem};
use required_key::{RequiredKey, Usage, required_keys};

/// The secrets of a resource.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Changes with the values; `None` if the pod needs no secret.
    pub(crate) digest: Option<String>,
    /// The parts of connection strings, by environment variable.
    pub(crate) derived: DerivedValues,
}

/// Why the secrets are not resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SecretProblem>),
    #[error("failed to get Secret {name:?}: {error}")]
    Api {
        name: String,
        error: Box<ContentError>,
    },
}

impl Error {
    /// The reason of the condition: a missing Secret comes before a missing key, and that before an
    /// unusable value.
    pub(crate) fn reason(&self) -> &'static str {
        let Self::Invalid(problems) = self else {
            return reason::SECRET_NOT_FOUND;
        };
        let has = |kind: &ProblemKind| problems.iter().any(|one| one.kind == *kind);
        if has(&ProblemKind::SecretNotFound) {
            reason::SECRET_NOT_FOUND
        } else if has(&ProblemKind::KeyNotFound) {
            reason::SECRET_KEY_MISSING
        } else {
            reason::SECRET_VALUE_UNUSABLE
        }
    }
}

/// Checks every Secret and key that the pod needs, and splits connection strings where the plan asks
/// for parts.
pub(crate) async fn resolve_secrets(
    contents: &ContentCache,
    checked: &Checked,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<Resolved, Error> {
    let required = required_keys(checked, plan);
    let mut by_secret: BTreeMap<&str, Vec<&RequiredKey>> = BTreeMap::new();
    for key in &required {
        by_secret
            .entry(&key.reference.secret)
            .or_default()
            .push(key);
    }
    let mut resolution = Resolution::default();
    for (name, keys) in by_secret {
        let failed = |error| Error::Api {
            name: name.to_owned(),
            error: Box::new(error),
        };
        let secret = Secret::read(contents, &owner.namespace, name, &keys);
        resolution.add(&secret.await.map_err(failed)?, keys);
    }
    resolution.finish()
}

/// A Secret with what is needed of it.
struct Secret {
    /// The keys; `None` if the Secret does not exist.
    fingerprints: Option<BTreeMap<String, Fingerprint>>,
    /// The values; empty unless a part of one is needed.
    values: BTreeMap<String, ByteString>,
}

impl Secret {
    async fn read(
        contents: &ContentCache,
        namespace: &str,
        name: &str,
        keys: &[&RequiredKey],
    ) -> Result<Self, ContentError> {
        let found = contents.secret(namespace, name).await?;
        let needs_values = |found: &BTreeMap<String, Fingerprint>| {
            keys.iter().any(|key| {
                matches!(key.usage, Usage::Part { .. }) && found.contains_key(&key.reference.key)
            })
        };
        let values = match &found {
            Some(found) if needs_values(found) => contents.secret_values(namespace, name).await?,
            _ => BTreeMap::new(),
        };
        Ok(Self {
            fingerprints: found.map(|found| (*found).clone()),
            values,
        })
    }

    fn fingerprint(&self, key: &str) -> Result<&Fingerprint, ProblemKind> {
        let fingerprints = self.fingerprints.as_ref();
        let fingerprints = fingerprints.ok_or(ProblemKind::SecretNotFound)?;
        fingerprints.get(key).ok_or(ProblemKind::KeyNotFound)
    }
}

/// The secrets that are resolved so far, and the problems.
#[derive(Default)]
struct Resolution {
    /// One line with the hash of each value.
    hashes: String,
    derived: DerivedValues,
    problems: Vec<SecretProblem>,
}

impl Resolution {
    fn add(&mut self, secret: &Secret, keys: Vec<&RequiredKey>) {
        for key in keys {
            if let Err(kind) = self.resolve(secret, key) {
                let reference = key.reference.clone();
                self.problems.push(SecretProblem { reference, kind });
            }
        }
    }

    fn resolve(&mut self, secret: &Secret, required: &RequiredKey) -> Result<(), ProblemKind> {
        let (name, key) = (&required.reference.secret, &required.reference.key);
        let fingerprint = secret.fingerprint(key)?;
        let line = format!("{name}/{key} {}\n", fingerprint.hash);
        self.hashes.push_str(&line);
        match &required.usage {
            Usage::AsIs => Ok(()),
            Usage::Whole { read_as } => check_type(*read_as, fingerprint.converted_type),
            Usage::Part {
                variable,
                part,
                read_as,
            } => {
                let value = extract(secret.values.get(key), *part, *read_as)?;
                self.derived.0.insert(variable.clone(), value);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Resolved, Error> {
        if !self.problems.is_empty() {
            return Err(Error::Invalid(self.problems));
        }
        Ok(Resolved {
            digest: (!self.hashes.is_empty()).then(|| digest::of(&self.hashes)),
            derived: self.derived,
        })
    }
}

/// Extracts one part of a connection string.
fn extract(value: Option<&ByteString>, part: Part, read_as: ReadAs) -> Result<String, ProblemKind> {
    let ByteString(bytes) = value.ok_or(ProblemKind::KeyNotFound)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ProblemKind::Unusable("must be UTF-8 text; correct it".to_owned()))?;
    let value = connection_string::part(text, part)
        .map_err(|error| ProblemKind::Unusable(error.to_string()))?;
    check_type(read_as, converted_type(&value)).map(|()| value)
}

/// Checks that the server can use a value after it converted its type.
fn check_type(read_as: ReadAs, converted: Option<ConvertedType>) -> Result<(), ProblemKind> {
    match (read_as, converted) {
        (ReadAs::ConvertedText, Some(converted)) => Err(ProblemKind::Unusable(format!(
            "would be read as {converted}, but the server requires a string; use another value"
        ))),
        (ReadAs::Number, None | Some(ConvertedType::Null | ConvertedType::Boolean)) => Err(
            ProblemKind::Unusable("must be a number; correct it".to_owned()),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::FieldPath;
    use llsd_api::checked::Reference;

    use super::*;

    fn extracted(value: &str, read_as: ReadAs) -> Result<String, String> {
        let value = ByteString(value.as_bytes().to_vec());
        extract(Some(&value), Part::Password, read_as).map_err(|kind| {
            let reference = Reference {
                path: FieldPath::spec().at(&["storage", "sql", "connectionString"]),
                secret: "pg".to_owned(),
                key: "dsn".to_owned(),
                env: "LLSD_SQL_CONNECTION_STRING".to_owned(),
            };
            SecretProblem { reference, kind }.to_string()
        })
    }

    #[test]
    fn a_part_is_extracted_and_an_invalid_connection_string_is_reported_without_its_value() {
        let valid = extracted("postgresql://u:s3cret@h/db", ReadAs::ConvertedText);
        assert_eq!(valid, Ok("s3cret".to_owned()));
        let problem = extracted("canary", ReadAs::Text).unwrap_err();
        assert!(problem.contains("pg/dsn") && problem.contains("spec.storage.sql"));
        assert!(!problem.contains("canary"), "{problem}");
    }

    #[test]
    fn a_value_that_the_server_would_convert_is_reported_where_a_string_is_required() {
        assert!(extracted("postgresql://u:123456@h/db", ReadAs::ConvertedText).is_err());
        assert!(extracted("postgresql://u:123456@h/db", ReadAs::Text).is_ok());
        assert!(check_type(ReadAs::Number, converted_type("5432")).is_ok());
        assert!(check_type(ReadAs::Number, converted_type("many")).is_err());
    }
}

//! Whether every secret that the pod needs is there and of use, and what must be taken apart.
//!
//! In: the plan, which names Secrets and keys. Out: a digest that changes with their values, and the
//! parts of connection strings, which leave this module only into a Secret of the resource; or all
//! that is wrong, at once. No message repeats a value.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use llsd_adapter_sdk::documents::{Part, ReadAs};
use llsd_api::FieldPath;
use llsd_api::checked::{Checked, Reference};
use llsd_api::conditions::reason;
use llsd_render::digest;
use llsd_render::objects::{ConfigPlan, DerivedValues, Owner};
use llsd_render::{PodVariable, ValueSource};

use super::contents::{self, Contents, Mark};
use super::{connection, conversion};

/// What is known of the secrets of a resource.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Changes with their values; absent where there is none.
    pub(crate) digest: Option<String>,
    /// What some were taken apart into.
    pub(crate) derived: DerivedValues,
}

/// What is wrong with one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    reference: Reference,
    cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    NoSecret,
    NoKey,
    /// The value is of no use, and why.
    Unusable(String),
}

/// Why the secrets are not known to be there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Troubled(Vec<Trouble>),
    #[error("the API server did not give the Secret {name:?}: {error}")]
    Api {
        name: String,
        error: Box<contents::Error>,
    },
}

impl Error {
    /// The reason of the condition: the first of what must be done.
    pub(crate) fn reason(&self) -> &'static str {
        let Self::Troubled(all) = self else {
            return reason::SECRET_NOT_FOUND;
        };
        let is_any = |cause: &Cause| all.iter().any(|one| one.cause == *cause);
        if is_any(&Cause::NoSecret) {
            reason::SECRET_NOT_FOUND
        } else if is_any(&Cause::NoKey) {
            reason::SECRET_KEY_MISSING
        } else {
            reason::SECRET_VALUE_UNUSABLE
        }
    }
}

/// Looks at every Secret and key that the pod needs, and takes apart what the plan wants in parts.
pub(crate) async fn resolve_secrets(
    contents: &Contents,
    checked: &Checked,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<Resolved, Error> {
    let namespace = &owner.namespace;
    let needs = needs(checked, plan);
    let mut by_secret: BTreeMap<&str, Vec<&Need>> = BTreeMap::new();
    for need in &needs {
        let needs = by_secret.entry(&need.reference.secret).or_default();
        needs.push(need);
    }
    let (mut marks, mut derived) = (String::new(), DerivedValues::default());
    let mut troubles = Vec::new();
    for (name, needs) in by_secret {
        let failed = |error| Error::Api {
            name: name.to_owned(),
            error: Box::new(error),
        };
        let found = contents.secret(namespace, name).await.map_err(failed)?;
        let mut values = None;
        for need in needs {
            let key = &need.reference.key;
            let mark = match &found {
                None => Err(Cause::NoSecret),
                Some(marks) => marks.get(key).ok_or(Cause::NoKey),
            };
            let met = match mark {
                Err(cause) => Err(cause),
                Ok(Mark { hash, becomes }) => {
                    marks.push_str(&format!("{name}/{key} {hash}\n"));
                    match &need.purpose {
                        Purpose::Whole { read_as } => suits(*read_as, *becomes),
                        Purpose::File => Ok(()),
                        Purpose::Part {
                            variable,
                            part,
                            read_as,
                        } => {
                            let values = match &mut values {
                                Some(values) => values,
                                none => none.insert(
                                    contents.values(namespace, name).await.map_err(failed)?,
                                ),
                            };
                            take(values.get(key), *part, *read_as).map(|value| {
                                derived.0.insert(variable.clone(), value);
                            })
                        }
                    }
                }
            };
            troubles.extend(met.err().map(|cause| Trouble {
                reference: need.reference.clone(),
                cause,
            }));
        }
    }
    if troubles.is_empty() {
        Ok(Resolved {
            digest: (!marks.is_empty()).then(|| digest::of(&marks)),
            derived,
        })
    } else {
        Err(Error::Troubled(troubles))
    }
}

/// A key that the pod needs.
struct Need {
    reference: Reference,
    purpose: Purpose,
}

/// What a value is needed for.
enum Purpose {
    /// A variable takes it as it is.
    Whole { read_as: ReadAs },
    /// A variable takes a part of it.
    Part {
        variable: String,
        part: Part,
        read_as: ReadAs,
    },
    /// It is mounted.
    File,
}

fn needs(checked: &Checked, plan: &ConfigPlan) -> Vec<Need> {
    let variables = match plan {
        ConfigPlan::Generated(generated) => generated.variables.as_slice(),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => &[],
    };
    let for_variables = variables.iter().filter_map(
        |PodVariable {
             name,
             source,
             read_as,
         }| {
            let read_as = *read_as;
            let (reference, purpose) = match source {
                ValueSource::Secret(reference) => (reference, Purpose::Whole { read_as }),
                ValueSource::Part(reference, part) => {
                    let (variable, part) = (name.clone(), *part);
                    let part = Purpose::Part {
                        variable,
                        part,
                        read_as,
                    };
                    (reference, part)
                }
                ValueSource::Literal(_) => return None,
            };
            let reference = reference.clone();
            Some(Need { reference, purpose })
        },
    );
    let certificate = checked.networking.tls_secret.iter().flat_map(|secret| {
        ["tls.crt", "tls.key"].map(|key| Need {
            reference: Reference {
                path: FieldPath::spec().at(&["networking", "tls", "secretName"]),
                secret: secret.clone(),
                key: key.to_owned(),
                env: String::new(),
            },
            purpose: Purpose::File,
        })
    });
    for_variables.chain(certificate).collect()
}

/// One part of a connection string.
fn take(value: Option<&ByteString>, part: Part, read_as: ReadAs) -> Result<String, Cause> {
    let ByteString(bytes) = value.ok_or(Cause::NoKey)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Cause::Unusable("is no text; write it again".to_owned()))?;
    let value = connection::part(text, part).map_err(|error| Cause::Unusable(error.to_string()))?;
    suits(read_as, conversion::becomes(&value)).map(|()| value)
}

/// Whether the server can use what it makes of a value.
fn suits(read_as: ReadAs, becomes: Option<&str>) -> Result<(), Cause> {
    match (read_as, becomes) {
        (ReadAs::ConvertedText, Some(becomes)) => Err(Cause::Unusable(format!(
            "would be read as {becomes}, and the server wants a text; use another value"
        ))),
        (ReadAs::Number, None | Some("nothing" | "a boolean")) => Err(Cause::Unusable(
            "is no number, and the server wants one; correct it".to_owned(),
        )),
        _ => Ok(()),
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference {
            path,
            secret,
            key,
            env: _,
        } = &self.reference;
        match &self.cause {
            Cause::NoSecret => write!(
                f,
                "Secret not found: {secret} ({path}); create it with the key {key:?}, or correct the reference"
            ),
            Cause::NoKey => write!(
                f,
                "Secret key not found: {secret}/{key} ({path}); add the key, or correct the reference"
            ),
            Cause::Unusable(problem) => {
                write!(
                    f,
                    "Secret value unusable: {secret}/{key} ({path}) {problem}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(value: &str, read_as: ReadAs) -> Result<String, String> {
        let value = ByteString(value.as_bytes().to_vec());
        take(Some(&value), Part::Password, read_as).map_err(|cause| {
            let reference = Reference {
                path: FieldPath::spec().at(&["storage", "sql", "connectionString"]),
                secret: "pg".to_owned(),
                key: "dsn".to_owned(),
                env: "LLSD_SQL_CONNECTION_STRING".to_owned(),
            };
            Trouble { reference, cause }.to_string()
        })
    }

    #[test]
    fn a_part_is_taken_and_a_wrong_connection_string_is_named_without_its_value() {
        let good = taken("postgresql://u:s3cret@h/db", ReadAs::ConvertedText);
        assert_eq!(good, Ok("s3cret".to_owned()));
        let refused = taken("canary", ReadAs::Text).unwrap_err();
        assert!(refused.contains("pg/dsn") && refused.contains("spec.storage.sql"));
        assert!(!refused.contains("canary"), "{refused}");
    }

    #[test]
    fn a_value_that_the_server_would_convert_is_reported_where_a_text_is_wanted() {
        assert!(taken("postgresql://u:123456@h/db", ReadAs::ConvertedText).is_err());
        assert!(taken("postgresql://u:123456@h/db", ReadAs::Text).is_ok());
        assert!(suits(ReadAs::Number, conversion::becomes("5432")).is_ok());
        assert!(suits(ReadAs::Number, conversion::becomes("many")).is_err());
    }
}

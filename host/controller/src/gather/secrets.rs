//! Whether every secret that the pod needs is there.
//!
//! In: the plan, which names Secrets and keys. Out: a digest that changes with their values, or all
//! that is missing, at once. Values never come here, only their marks.

use std::collections::BTreeMap;
use std::fmt;

use llsd_api::checked::Reference;
use llsd_render::ValueSource;
use llsd_render::objects::{ConfigPlan, Owner};

use super::contents::{self, Contents};
use crate::digest;

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The reference.
    pub(crate) reference: Reference,
    /// Whether the Secret is there and only lacks the key.
    pub(crate) is_only_the_key: bool,
}

/// Why the secrets are not known to be there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Missing(Vec<Missing>),
    #[error("the API server did not give the Secret {name:?}: {error}")]
    Api {
        name: String,
        error: Box<contents::Error>,
    },
}

/// Finds every Secret and key that the plan's variables are filled from. The digest is absent where
/// there is none.
pub(crate) async fn resolve_secrets(
    contents: &Contents,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<Option<String>, Error> {
    let mut missing = Vec::new();
    let mut marks = String::new();
    for (name, references) in by_secret(plan) {
        let found = contents
            .secret(&owner.namespace, name)
            .await
            .map_err(|error| Error::Api {
                name: name.to_owned(),
                error: Box::new(error),
            })?;
        for reference in references {
            let key = &reference.key;
            match found.as_ref().and_then(|marks| marks.get(key)) {
                Some(mark) => marks.push_str(&format!("{name}/{key} {mark}\n")),
                None => missing.push(Missing {
                    reference: reference.clone(),
                    is_only_the_key: found.is_some(),
                }),
            }
        }
    }
    if missing.is_empty() {
        Ok((!marks.is_empty()).then(|| digest::of(&marks)))
    } else {
        Err(Error::Missing(missing))
    }
}

fn by_secret(plan: &ConfigPlan) -> BTreeMap<&str, Vec<&Reference>> {
    let ConfigPlan::Generated(generated) = plan else {
        return BTreeMap::new();
    };
    let mut secrets: BTreeMap<&str, Vec<&Reference>> = BTreeMap::new();
    for variable in &generated.variables {
        match &variable.source {
            ValueSource::Secret(reference) | ValueSource::Part(reference, _) => {
                secrets
                    .entry(&reference.secret)
                    .or_default()
                    .push(reference);
            }
            ValueSource::Literal(_) => {}
        }
    }
    secrets
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference {
            path,
            secret,
            key,
            env: _,
        } = &self.reference;
        if self.is_only_the_key {
            write!(
                f,
                "Secret key not found: {secret}/{key} ({path}); add the key, or correct the reference"
            )
        } else {
            write!(
                f,
                "Secret not found: {secret} ({path}); create it with the key {key:?}, or correct the reference"
            )
        }
    }
}

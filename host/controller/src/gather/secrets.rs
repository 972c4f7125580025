//! Whether every secret that the pod needs is there.
//!
//! In: the plan, which names Secrets and keys. Out: nothing, or all that is missing, at once. Values
//! are dropped as soon as their keys are known; none leaves this module.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use llsd_api::checked::Reference;
use llsd_render::ValueSource;
use llsd_render::objects::{ConfigPlan, Owner};

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
        error: Box<kube::Error>,
    },
}

/// Finds every Secret and key that the plan's variables are filled from.
pub(crate) async fn resolve_secrets(
    client: &Client,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<(), Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &owner.namespace);
    let mut missing = Vec::new();
    for (name, references) in by_secret(plan) {
        let found = api.get_opt(name).await.map_err(|error| Error::Api {
            name: name.to_owned(),
            error: Box::new(error),
        })?;
        let is_there = found.is_some();
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        let lost = references
            .into_iter()
            .filter(|reference| !data.contains_key(&reference.key));
        missing.extend(lost.map(|reference| Missing {
            reference: reference.clone(),
            is_only_the_key: is_there,
        }));
    }
    if missing.is_empty() {
        Ok(())
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

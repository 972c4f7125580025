//! Writes the objects of a resource: only those that differ, and none that is somebody else's.
//!
//! Everything is looked at before anything is written. What the pods need comes first and adds to
//! what is there; image, configuration and variables then change in one write of the Deployment. The
//! Service follows it, so that a Deployment that is refused leaves everything as it was.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{DESIRED_DIGEST, Desired, Owner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why the objects were not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{kind} {name:?} exists and does not belong to this resource; delete it, or give the resource another name"
    )]
    NotOurs { kind: String, name: String },
    #[error("the API server did not {verb} {kind} {name:?}: {error}")]
    Api {
        verb: &'static str,
        kind: String,
        name: String,
        error: Box<kube::Error>,
    },
}

/// Brings the cluster to what is desired, and gives the Deployment as it then is.
pub(crate) async fn apply(
    client: &Client,
    desired: Desired,
    owner: &Owner,
) -> Result<Deployment, Error> {
    let Desired {
        config_map,
        service_account,
        claim,
        service,
        deployment,
    } = desired;
    let config_map = match config_map {
        Some(config_map) => Some(Pair::look(client, config_map, owner).await?),
        None => None,
    };
    let claim = match claim {
        Some(claim) => Some(Pair::look(client, claim, owner).await?),
        None => None,
    };
    let service_account = Pair::look(client, service_account, owner).await?;
    let service = Pair::look(client, service, owner).await?;
    let deployment = Pair::look(client, deployment, owner).await?;

    // These two cannot be changed once they are there.
    if let Some(config_map) = config_map {
        config_map.create().await?;
    }
    if let Some(claim) = claim {
        claim.create().await?;
    }
    service_account.converge().await?;
    let deployment = deployment.converge().await?;
    service.converge().await?;
    Ok(deployment)
}

impl Error {
    /// Whether somebody has to change something; otherwise the API server may just be busy.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NotOurs { .. } => true,
            Self::Api { error, .. } => {
                matches!(&**error, kube::Error::Api(answer) if answer.is_invalid() || answer.is_forbidden())
            }
        }
    }
}

/// An object as it should be and as it is.
struct Pair<K> {
    api: Api<K>,
    desired: K,
    live: Option<K>,
}

impl<K> Pair<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    async fn look(client: &Client, desired: K, owner: &Owner) -> Result<Self, Error> {
        let api = Api::namespaced(client.clone(), &owner.namespace);
        let name = desired.name_any();
        let live: Option<K> = api
            .get_opt(&name)
            .await
            .map_err(|error| failure::<K>("give", &name, error))?;
        let is_ours = |object: &K| {
            object
                .owner_references()
                .iter()
                .any(|one| one.uid == owner.uid)
        };
        match live {
            Some(object) if !is_ours(&object) => Err(Error::NotOurs {
                kind: K::kind(&()).into_owned(),
                name,
            }),
            live => Ok(Self { api, desired, live }),
        }
    }

    /// Writes the object if there is none.
    async fn create(self) -> Result<K, Error> {
        match self.live {
            Some(live) => Ok(live),
            None => self.write().await,
        }
    }

    /// Writes the object if it is not what it should be.
    async fn converge(self) -> Result<K, Error> {
        match &self.live {
            Some(live) if is_current(live, &self.desired) => Ok(live.clone()),
            _ => self.write().await,
        }
    }

    async fn write(self) -> Result<K, Error> {
        let name = self.desired.name_any();
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let written = self
            .api
            .patch(&name, &parameters, &Patch::Apply(&self.desired))
            .await;
        written.map_err(|error| failure::<K>("take", &name, error))
    }
}

fn failure<K: Resource<DynamicType = ()>>(
    verb: &'static str,
    name: &str,
    error: kube::Error,
) -> Error {
    Error::Api {
        verb,
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        error: Box::new(error),
    }
}

/// Whether an object was written for what is desired now, and nobody has changed it since. The
/// digest tells of fields that are no longer wanted, the comparison of fields that others changed.
fn is_current<K: ResourceExt + Serialize>(live: &K, desired: &K) -> bool {
    let digest = |object: &K| object.annotations().get(DESIRED_DIGEST).cloned();
    let as_json = |object: &K| serde_json::to_value(object).unwrap_or_default();
    digest(live) == digest(desired) && holds(&as_json(live), &as_json(desired))
}

/// Whether everything that is wanted is there; the API server adds its defaults, which do not count.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| live.get(key).is_some_and(|live| holds(live, wanted))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| holds(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::holds;

    #[test]
    fn defaults_of_the_api_server_are_no_difference_and_changed_values_are() {
        let wanted = json!({"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}});
        let defaulted = json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "selector": {"a": "b"}, "type": "ClusterIP"}});
        assert!(holds(&defaulted, &wanted));
        for edited in [
            json!({"spec": {"ports": [{"port": 2}], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [{"port": 1}]}}),
        ] {
            assert!(!holds(&edited, &wanted), "{edited}");
        }
    }
}

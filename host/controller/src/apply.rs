//! Writes the objects of a resource: only those that differ, and none that is somebody else's.
//!
//! Everything is looked at before anything is written. What the pods need comes first and adds to
//! what is there; image, configuration and variables then change in one write of the Deployment. What
//! leads to the pods follows it, so that a Deployment that is refused leaves everything as it was.
//! What is no longer wanted goes last.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{Child, DESIRED_DIGEST, Desired, Kind, Need, Owner, Retired, Write};
use serde_json::Value;

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{kind:?} {name:?} exists and does not belong to this resource; delete it, or give the resource another name"
    )]
    NotOurs { kind: Kind, name: String },
    #[error("the API server did not {verb} {kind:?} {name:?}: {error}")]
    Api {
        verb: &'static str,
        kind: Kind,
        name: String,
        error: Box<kube::Error>,
    },
    #[error("the API server answered with a Deployment that cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// What came of the objects.
#[derive(Debug)]
pub(crate) struct Written {
    /// The Deployment as it now is.
    pub(crate) deployment: Deployment,
    /// Why some of the objects that a server can do without are not as they should be.
    pub(crate) shortfalls: Vec<Error>,
}

/// Brings the cluster to what is desired.
pub(crate) async fn apply(
    client: &Client,
    desired: Desired,
    owner: &Owner,
) -> Result<Written, Error> {
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = desired;
    let mut shortfalls = Vec::new();
    let before = look(client, before, owner, &mut shortfalls).await?;
    let deployment = Pair::look(client, deployment, owner).await?;
    let after = look(client, after, owner, &mut shortfalls).await?;

    write(before, &mut shortfalls).await?;
    let deployment = serde_json::to_value(deployment.write().await?)?;
    let deployment: Deployment = serde_json::from_value(deployment)?;
    write(after, &mut shortfalls).await?;
    for one in retired {
        if one.kind.is_read_by_pods() && !is_rolled_out(&deployment) {
            continue;
        }
        if let Err(error) = remove(client, &one, owner).await {
            shortfalls.push(error);
        }
    }
    Ok(Written {
        deployment,
        shortfalls,
    })
}

impl Error {
    /// Whether somebody has to change something; otherwise the API server may just be busy.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NotOurs { .. } => true,
            Self::Api { error, .. } => {
                matches!(&**error, kube::Error::Api(answer) if answer.is_invalid() || answer.is_forbidden())
            }
            Self::Unreadable(_) => false,
        }
    }
}

/// Looks at all of them. What a server can do without and cannot be had is left out.
async fn look(
    client: &Client,
    children: Vec<Child>,
    owner: &Owner,
    shortfalls: &mut Vec<Error>,
) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    for child in children {
        let need = child.need;
        match Pair::look(client, child, owner).await {
            Ok(pair) => pairs.push(pair),
            Err(error) if need == Need::Optional => shortfalls.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(pairs)
}

async fn write(pairs: Vec<Pair>, shortfalls: &mut Vec<Error>) -> Result<(), Error> {
    for pair in pairs {
        let need = pair.desired.need;
        match pair.write().await {
            Ok(_) => {}
            Err(error) if need == Need::Optional => shortfalls.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Deletes an object, if it is ours.
async fn remove(client: &Client, retired: &Retired, owner: &Owner) -> Result<(), Error> {
    let &Retired { kind, ref name } = retired;
    let api = api(client, kind, owner);
    let found = api
        .get_metadata_opt(name)
        .await
        .map_err(|error| failure("give", kind, name, error))?;
    let Some(uid) = found
        .filter(|object| is_ours(object, owner))
        .and_then(|object| object.metadata.uid)
    else {
        return Ok(());
    };
    let same = Preconditions {
        uid: Some(uid),
        resource_version: None,
    };
    let parameters = DeleteParams::background().preconditions(same);
    match api.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Ok(()),
        Err(error) => Err(failure("delete", kind, name, error)),
    }
}

/// An object as it should be and as it is.
struct Pair {
    api: Api<DynamicObject>,
    desired: Child,
    live: Option<DynamicObject>,
}

impl Pair {
    async fn look(client: &Client, desired: Child, owner: &Owner) -> Result<Self, Error> {
        let api = api(client, desired.kind, owner);
        let live = api
            .get_opt(&desired.name)
            .await
            .map_err(|error| failure("give", desired.kind, &desired.name, error))?;
        match live {
            Some(object) if !is_ours(&object, owner) => Err(Error::NotOurs {
                kind: desired.kind,
                name: desired.name,
            }),
            live => Ok(Self { api, desired, live }),
        }
    }

    /// Writes the object, unless it is what it should be or cannot be changed.
    async fn write(self) -> Result<DynamicObject, Error> {
        let Self { api, desired, live } = self;
        match live {
            Some(live) if desired.write == Write::Once || is_current(&live, &desired.object)? => {
                return Ok(live);
            }
            _ => {}
        }
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&desired.name, &parameters, &Patch::Apply(&desired.object))
            .await
            .map_err(|error| failure("take", desired.kind, &desired.name, error))
    }
}

fn api(client: &Client, kind: Kind, owner: &Owner) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &owner.namespace, &kind.resource())
}

fn is_ours(object: &impl ResourceExt, owner: &Owner) -> bool {
    object
        .owner_references()
        .iter()
        .any(|one| one.uid == owner.uid)
}

fn failure(verb: &'static str, kind: Kind, name: &str, error: kube::Error) -> Error {
    Error::Api {
        verb,
        kind,
        name: name.to_owned(),
        error: Box::new(error),
    }
}

/// Whether no pod of an older template is left.
fn is_rolled_out(deployment: &Deployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation >= deployment.metadata.generation
            && status.replicas == status.updated_replicas
    })
}

/// Whether an object was written for what is desired now, and nobody has changed it since. The
/// digest tells of fields that are no longer wanted, the comparison of fields that others changed.
fn is_current(live: &DynamicObject, desired: &Value) -> Result<bool, Error> {
    let digest = live.annotations().get(DESIRED_DIGEST).map(String::as_str);
    Ok(
        digest == desired["metadata"]["annotations"][DESIRED_DIGEST].as_str()
            && holds(&serde_json::to_value(live)?, desired),
    )
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

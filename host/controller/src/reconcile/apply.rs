//! Writes the objects of a resource: only those that differ, and none that is somebody else's.
//!
//! Everything is looked at before anything is written, and looking costs no request. What the pods
//! need comes first and adds to what is there; image, configuration and variables then change in one
//! write of the Deployment. What leads to the pods follows it, so that a Deployment that is refused
//! leaves everything as it was. Only where there are no pods yet, everything else comes first: an
//! object of somebody else's shows when ours is to be made. What is no longer wanted goes last.

mod prune;
pub(crate) mod takeover;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use llsd_api::labels;
use llsd_render::objects::{Child, Desired, Kind, Need, Owner, Retired};
use serde_json::Value;

use crate::turns::Turns;
use crate::view::{View, mounted_config_maps};
use write::Pair;
pub(crate) use write::{fit, is_ours};

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
}

/// What came of the objects.
#[derive(Debug)]
pub(crate) struct Written {
    /// The Ingress or Route as it now is.
    pub(crate) exposure: Option<Arc<DynamicObject>>,
    /// Why some of the objects that a server can do without are not as they should be.
    pub(crate) shortfalls: Vec<Error>,
}

/// The cluster, to be looked at and written to for one resource.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) client: &'a Client,
    pub(crate) view: &'a View,
    pub(crate) turns: &'a Turns,
    pub(crate) owner: &'a Owner,
    /// Whether the resource names a distribution and not an image: then pods that were taken over go
    /// on with the release that they run.
    pub(crate) takes_any_release: bool,
}

/// Brings the cluster to what is desired. `None`: what starts the pods is there, and the rest is put
/// off, because other resources wait to be started.
pub(crate) async fn apply(target: Target<'_>, desired: Desired) -> Result<Option<Written>, Error> {
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = desired;
    let config_map = generated(&before);
    let mut shortfalls = Vec::new();
    let before = look(target, before, &mut shortfalls)?;
    let deployment = Pair::look(target, deployment)?;
    let after = look(target, after, &mut shortfalls)?;
    if deployment.is_new() && target.turns.is_anything_urgent() {
        write(target, before, &mut shortfalls).await?;
        deployment.write(target).await?;
        return Ok(None);
    }

    let (first, after): (Vec<_>, Vec<_>) = after
        .into_iter()
        .partition(|pair| deployment.is_new() && pair.is_new() && pair.need() == Need::Essential);
    let before = before.into_iter().chain(first).collect();
    write(target, before, &mut shortfalls).await?;
    let deployment = deployment.write(target).await?;
    let exposure = write(target, after, &mut shortfalls).await?;
    let is_rolled_out = is_rolled_out(&deployment);
    let retired = retired
        .into_iter()
        .filter(|one| is_rolled_out || !one.kind.is_read_by_pods())
        .chain(superfluous(target, config_map.filter(|_| is_rolled_out)));
    for one in retired {
        if let Err(error) = remove(target, &one).await {
            shortfalls.push(error);
        }
    }
    Ok(Some(Written {
        exposure,
        shortfalls,
    }))
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

/// Looks at all of them. What a server can do without and cannot be had is left out.
fn look(
    target: Target<'_>,
    children: Vec<Child>,
    shortfalls: &mut Vec<Error>,
) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    for child in children {
        let need = child.need;
        match Pair::look(target, child) {
            Ok(pair) => pairs.push(pair),
            Err(error) if need == Need::Optional => shortfalls.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(pairs)
}

/// Writes all of them at once, for none needs another, and gives the one that exposes the server.
async fn write(
    target: Target<'_>,
    pairs: Vec<Pair>,
    shortfalls: &mut Vec<Error>,
) -> Result<Option<Arc<DynamicObject>>, Error> {
    let writes = pairs.into_iter().map(async |pair| {
        let (kind, need) = (pair.kind(), pair.need());
        (kind, need, pair.write(target).await)
    });
    let mut exposure = None;
    for (kind, need, written) in join_all(writes).await {
        match written {
            Ok(live) if matches!(kind, Kind::Ingress | Kind::Route) => exposure = Some(live),
            Ok(_) => {}
            Err(error) if need == Need::Optional => shortfalls.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(exposure)
}

/// Deletes an object, if it is there and ours.
async fn remove(target: Target<'_>, retired: &Retired) -> Result<(), Error> {
    let &Retired { kind, ref name } = retired;
    let namespace = &target.owner.namespace;
    let Some(found) = target.view.child(kind, namespace, name) else {
        return Ok(());
    };
    if !is_ours(&found, target.owner) {
        return Ok(());
    }
    write::delete(target, kind, name, found.uid()).await?;
    if let Some(cache) = target.view.of(kind) {
        cache.forget(namespace, name);
    }
    Ok(())
}

/// The generated ConfigMap among the objects: the one whose content names it.
fn generated(before: &[Child]) -> Option<String> {
    let is_generated = |child: &&Child| {
        child.kind == Kind::ConfigMap && child.object["immutable"] == Value::Bool(true)
    };
    Some(before.iter().find(is_generated)?.name.clone())
}

/// Generated ConfigMaps that no pod needs any more, once the current one is rolled out.
fn superfluous(target: Target<'_>, current: Option<String>) -> Vec<Retired> {
    let Some(current) = current else {
        return Vec::new();
    };
    let Owner {
        namespace, name, ..
    } = target.owner;
    let is_generated = |object: &DynamicObject| {
        object.name_any().starts_with(&format!("{name}-config-"))
            && object.labels().contains_key(labels::COMPONENT)
            && is_ours(object, target.owner)
    };
    let maps = target
        .view
        .of(Kind::ConfigMap)
        .map(|cache| cache.find(namespace, is_generated))
        .unwrap_or_default();
    let is_of_resource = |set: &DynamicObject| set.labels().get(labels::INSTANCE) == Some(name);
    let sets = target.view.replica_sets.find(namespace, is_of_resource);
    let mounted: BTreeSet<String> = sets
        .iter()
        .flat_map(|set| mounted_config_maps(set))
        .map(str::to_owned)
        .collect();
    let retire = |name| Retired {
        kind: Kind::ConfigMap,
        name,
    };
    prune::superfluous(&maps, &current, &mounted)
        .into_iter()
        .map(retire)
        .collect()
}

/// Whether no pod of an older template is left.
fn is_rolled_out(deployment: &DynamicObject) -> bool {
    let status = &deployment.data["status"];
    status["observedGeneration"].as_i64() >= deployment.metadata.generation
        && status["replicas"] == status["updatedReplicas"]
}

/// Whether everything that is wanted is there; the API server adds its defaults, which do not count.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => holds(live, wanted),
                None => is_empty(wanted),
            })
        }
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

/// What the API server does not store.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
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

    #[test]
    fn what_the_api_server_does_not_store_is_no_difference() {
        let wanted = json!({"env": [{"name": "A", "value": ""}], "args": []});
        assert!(holds(&json!({"env": [{"name": "A"}]}), &wanted));
        assert!(!holds(&json!({"env": []}), &wanted));
    }
}

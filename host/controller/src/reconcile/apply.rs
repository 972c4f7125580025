//! Step 6, apply: writes the objects of a resource that differ, and never an object of someone else.
//!
//! All objects are compared before any is written; comparing costs no request. The order of writes
//! keeps the server running:
//!
//! 1. what the pods need, which only adds objects, and the NetworkPolicy: if it cannot be written, the
//!    pods are neither started nor changed;
//! 2. the Deployment, so that image, configuration and variables change in a single write;
//! 3. what depends on the pods, so that a rejected Deployment leaves everything as it was;
//! 4. deletions.
//!
//! Only for a new Deployment the essential objects of 3 come first: if one of their names is taken,
//! no pods are started.

mod adoption;
mod contains;
mod managed_fields;
mod object_sync;
mod prune;
mod volume_claim;

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use llsd_api::{Distribution, labels};
use llsd_render::objects::{Child, Desired, Kind, Need, Owner, Retired, is_generated_config_map};
use serde_json::Value;

use crate::cache::{ClusterCache, mounted_config_maps};
pub(crate) use adoption::{Requested, TEMPLATE_KEPT_FOR, kept_template, was_created_for};
use object_sync::ObjectSync;
pub(crate) use object_sync::{belongs_to, is_ours, preserve};
pub(crate) use volume_claim::grown;

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{kind:?} {name:?} exists and does not belong to this resource; delete it, or give the resource another name"
    )]
    NotOurs { kind: Kind, name: String },
    #[error("failed to {verb} {kind:?} {name:?}: {error}")]
    Api {
        verb: &'static str,
        kind: Kind,
        name: String,
        error: Box<kube::Error>,
    },
    #[error("failed to read the resource before adopting its objects: {0}")]
    Owner(Box<kube::Error>),
    #[error("the resource is being deleted, so the objects that it left behind are not adopted")]
    OwnerDeleted,
}

/// The result of the writes.
#[derive(Debug)]
pub(crate) struct Written {
    /// The current Ingress, Route, HTTPRoute or TLSRoute.
    pub(crate) exposure: Option<DynamicObject>,
    /// Why optional objects could not be written.
    pub(crate) optional_failures: Vec<Error>,
    /// Why the volume claim has another size than the resource asks for.
    pub(crate) claim_problem: Option<String>,
}

/// What it takes to write the objects of one resource.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cache: &'a ClusterCache,
    pub(crate) owner: &'a Owner,
}

/// Writes the desired objects and deletes the retired ones.
pub(crate) async fn apply(target: Target<'_>, desired: Desired) -> Result<Written, Error> {
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = desired;
    let config_map = generated_config_map(&before);
    let is_claim = |child: &Child| child.kind == Kind::PersistentVolumeClaim;
    let claim = before.iter().find(|child| is_claim(child)).cloned();
    let mut optional_failures = Vec::new();
    let before = compare(target, before, &mut optional_failures)?;
    let deployment = ObjectSync::compare(target, deployment)?;
    let after = compare(target, after, &mut optional_failures)?;
    let adopts_some = |syncs: &[ObjectSync]| syncs.iter().any(|sync| sync.adopts(target.owner));
    let adopts = adopts_some(&before) || deployment.adopts(target.owner) || adopts_some(&after);
    if adopts {
        check_owner(target).await?;
    }

    let (first, after): (Vec<_>, Vec<_>) = after
        .into_iter()
        .partition(|sync| deployment.is_new() && sync.is_new() && sync.need() == Need::Essential);
    let before = before.into_iter().chain(first).collect();
    write(target, before, &mut optional_failures).await?;
    let deployment = deployment.write(target).await?;
    let exposure = write(target, after, &mut optional_failures).await?;
    let claim_problem = match claim {
        Some(claim) => volume_claim::grow(target, &claim).await,
        None => None,
    };
    let is_rolled_out = is_rolled_out(&deployment);
    // Pods of llama-stack-k8s-operator that were adopted run as the user that its RoleBinding allows.
    let is_needed = |kind: Kind| match kind {
        Kind::RoleBinding => !is_rolled_out || adoption::is_template_kept(&deployment),
        kind => !is_rolled_out && kind.is_read_by_pods(),
    };
    let unused = if is_observed(&deployment) {
        unused_config_maps(target, config_map.as_deref())
    } else {
        Vec::new()
    };
    let retired = retired
        .into_iter()
        .filter(|one| !is_needed(one.kind))
        .chain(unused);
    for one in retired {
        if let Err(error) = delete(target, &one).await {
            optional_failures.push(error);
        }
    }
    Ok(Written {
        exposure,
        optional_failures,
        claim_problem,
    })
}

/// Writes one object, if it differs.
pub(crate) async fn write_one(target: Target<'_>, child: Child) -> Result<(), Error> {
    let sync = ObjectSync::compare(target, child)?;
    sync.write(target).await.map(|_| ())
}

/// One object from the API server.
pub(crate) async fn get(
    target: Target<'_>,
    kind: Kind,
    name: &str,
) -> Result<Option<DynamicObject>, Error> {
    object_sync::get(target, kind, name).await
}

impl Error {
    /// Whether a user must act. Other failures are transient.
    pub(crate) fn is_rejection(&self) -> bool {
        match self {
            Self::NotOurs { .. } => true,
            Self::Owner(_) | Self::OwnerDeleted => false,
            Self::Api { error, .. } => {
                matches!(&**error, kube::Error::Api(status) if status.is_invalid() || status.is_forbidden())
            }
        }
    }
}

/// Asks the API server whether the resource can own objects. A watch can be late: `kubectl delete
/// --cascade=orphan` removes the owner of the objects, and if they became objects of the deleted
/// resource again, the garbage collector would delete them.
async fn check_owner(target: Target<'_>) -> Result<(), Error> {
    let Owner {
        namespace, name, ..
    } = target.owner;
    let api: Api<Distribution> = Api::namespaced(target.client.clone(), namespace);
    // The operator may list resources, and needs no permission to get one.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api.list_metadata(&named).await;
    let found = found.map_err(|error| Error::Owner(Box::new(error)))?;
    let mut found = found.items.iter();
    match found.any(|one| can_own(&one.metadata, target.owner)) {
        true => Ok(()),
        false => Err(Error::OwnerDeleted),
    }
}

/// Whether this is the metadata of the owner, and it is not being deleted.
fn can_own(metadata: &ObjectMeta, owner: &Owner) -> bool {
    metadata.uid.as_deref() == Some(&owner.uid) && metadata.deletion_timestamp.is_none()
}

/// Compares objects with the live ones. An optional object that must not be written is left out.
fn compare(
    target: Target<'_>,
    children: Vec<Child>,
    optional_failures: &mut Vec<Error>,
) -> Result<Vec<ObjectSync>, Error> {
    let mut syncs = Vec::new();
    for child in children {
        let need = child.need;
        match ObjectSync::compare(target, child) {
            Ok(sync) => syncs.push(sync),
            Err(error) if need == Need::Optional => optional_failures.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(syncs)
}

/// Writes objects concurrently, because none depends on another. Returns the one that has the address
/// outside the cluster.
async fn write(
    target: Target<'_>,
    syncs: Vec<ObjectSync>,
    optional_failures: &mut Vec<Error>,
) -> Result<Option<DynamicObject>, Error> {
    let writes = syncs.into_iter().map(async |sync| {
        let (kind, need) = (sync.kind(), sync.need());
        (kind, need, sync.write(target).await)
    });
    let mut exposure = None;
    for (kind, need, written) in join_all(writes).await {
        match written {
            Ok(live) if kind.has_address() => exposure = Some(live),
            Ok(_) => {}
            Err(error) if need == Need::Optional => optional_failures.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(exposure)
}

/// Deletes an object if it exists and belongs to the resource.
async fn delete(target: Target<'_>, retired: &Retired) -> Result<(), Error> {
    let &Retired { kind, ref name } = retired;
    let namespace = &target.owner.namespace;
    let Some(found) = target.cache.child(kind, namespace, name) else {
        return Ok(());
    };
    if !belongs_to(&found, target.owner) {
        return Ok(());
    }
    object_sync::delete(target, kind, name, found.uid()).await?;
    if let Some(objects) = target.cache.of(kind) {
        objects.forget(namespace, name);
    }
    Ok(())
}

/// The name of the generated ConfigMap, which is immutable.
fn generated_config_map(before: &[Child]) -> Option<String> {
    let is_generated = |child: &&Child| {
        child.kind == Kind::ConfigMap && child.object["immutable"] == Value::Bool(true)
    };
    Some(before.iter().find(is_generated)?.name.clone())
}

/// Generated ConfigMaps that no pod uses any more. Pods of older templates may still run during a
/// rollout, also during one that is stuck; their ReplicaSets tell which ConfigMaps they mount. `None`:
/// the resource has no generated configuration any more.
fn unused_config_maps(target: Target<'_>, current: Option<&str>) -> Vec<Retired> {
    let Owner {
        namespace, name, ..
    } = target.owner;
    let is_generated = |object: &DynamicObject| {
        is_generated_config_map(&object.name_any(), name)
            && object.labels().contains_key(labels::COMPONENT)
            && is_ours(object, target.owner)
    };
    let maps = target
        .cache
        .of(Kind::ConfigMap)
        .map(|objects| objects.group(namespace, name))
        .unwrap_or_default();
    let maps: Vec<DynamicObject> = maps.into_iter().filter(is_generated).collect();
    let sets = target.cache.replica_sets.group(namespace, name);
    let mounted: BTreeSet<String> = sets
        .iter()
        .flat_map(mounted_config_maps)
        .map(str::to_owned)
        .collect();
    let retire = |name| Retired {
        kind: Kind::ConfigMap,
        name,
    };
    prune::unused(&maps, current, &mounted)
        .into_iter()
        .map(retire)
        .collect()
}

/// Whether the Deployment controller has seen the current template. Before, it may still create pods of
/// an older one.
fn is_observed(deployment: &DynamicObject) -> bool {
    deployment.data["status"]["observedGeneration"].as_i64() >= deployment.metadata.generation
}

/// Whether every pod has the current template.
fn is_rolled_out(deployment: &DynamicObject) -> bool {
    let status = &deployment.data["status"];
    is_observed(deployment) && status["replicas"] == status["updatedReplicas"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_that_is_deleted_or_was_created_again_owns_nothing() {
        let owner = Owner {
            namespace: "team".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        };
        let can_own = |metadata: Value| {
            let metadata = serde_json::from_value(metadata).expect("metadata");
            can_own(&metadata, &owner)
        };
        assert!(can_own(json!({"uid": "1"})));
        assert!(!can_own(json!({"uid": "2"})));
        assert!(!can_own(
            json!({"uid": "1", "deletionTimestamp": "2026-11-17T00:00:00Z"})
        ));
    }
}

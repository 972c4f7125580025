//! One object: its desired and its live state, and the requests that make them equal.

use std::borrow::Cow;

use axum::http;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request, request};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{Child, DESIRED_DIGEST, Kind, Need, Owner, Write};
use serde_json::{Value, json};

use super::contains::contains;
use super::{Error, Target, adoption, check_owner, managed_fields};
use crate::cache::{ReceivedObject, is_metadata_only};
use crate::reconcile::metadata_response;

/// A resource version that no object has. An apply with it can create an object, but fails with a
/// conflict if the object exists.
const CREATE_ONLY_VERSION: &str = "1";

/// The desired and the live state of one object.
pub(super) struct ObjectSync {
    desired: Child,
    live: Option<DynamicObject>,
}

impl ObjectSync {
    /// Compares the desired object with the cached one. Fails if the object belongs to someone else.
    pub(super) fn compare(target: Target<'_>, mut desired: Child) -> Result<Self, Error> {
        let owner = target.owner;
        let live = target
            .cache
            .child(desired.kind, &owner.namespace, &desired.name);
        if let Some(object) = &live {
            preserve(object, &mut desired, owner)?;
        }
        Ok(Self { desired, live })
    }

    pub(super) fn kind(&self) -> Kind {
        self.desired.kind
    }

    pub(super) fn need(&self) -> Need {
        self.desired.need
    }

    /// Whether the cache has no such object.
    pub(super) fn is_new(&self) -> bool {
        self.live.is_none()
    }

    /// Whether a write would make the resource the owner of an existing object.
    pub(super) fn adopts(&self, owner: &Owner) -> bool {
        let live = self.live.as_ref();
        live.is_some_and(|live| adopts(live, &self.desired, owner))
    }

    /// Writes the object, unless it is current or must not be changed.
    pub(super) async fn write(self, target: Target<'_>) -> Result<DynamicObject, Error> {
        let Self { desired, live } = self;
        let written = match live {
            Some(live) if is_settled(target, &live, &desired) => return Ok(live),
            Some(live) if is_unread(target, &live, &desired) => {
                match read_if_current(target, &desired).await? {
                    Some(read) => read,
                    None => server_side_apply(target, &desired, None).await?,
                }
            }
            Some(live) => {
                adopt(target, &live, &desired).await?;
                server_side_apply(target, &desired, None).await?
            }
            None => create(target, &desired).await?,
        };
        target.cache.record(desired.kind, written.clone());
        Ok(written)
    }
}

/// Whether a resource owns an object.
pub(crate) fn is_ours(object: &DynamicObject, owner: &Owner) -> bool {
    object
        .owner_references()
        .iter()
        .any(|one| one.uid == owner.uid)
}

/// Whether a write would make the resource the owner of an object that has none.
fn adopts(live: &DynamicObject, desired: &Child, owner: &Owner) -> bool {
    !desired.object["metadata"]["ownerReferences"].is_null() && !is_ours(live, owner)
}

/// Whether an object belongs to a resource: it owns the object, or the object is an orphan that the
/// resource adopted without becoming its owner.
pub(crate) fn belongs_to(object: &DynamicObject, owner: &Owner) -> bool {
    is_ours(object, owner) || adoption::is_unowned_child(object)
}

/// One object from the API server.
pub(super) async fn get(
    target: Target<'_>,
    kind: Kind,
    name: &str,
) -> Result<Option<DynamicObject>, Error> {
    let found = api(target, kind).get_opt(name).await;
    found.map_err(|error| failure("get", kind, name, error))
}

/// Deletes an object, unless it was replaced by another one of the same name.
pub(super) async fn delete(
    target: Target<'_>,
    kind: Kind,
    name: &str,
    uid: Option<String>,
) -> Result<(), Error> {
    let same_uid = Preconditions {
        uid,
        resource_version: None,
    };
    let parameters = DeleteParams::background().preconditions(same_uid);
    match api(target, kind).delete(name, &parameters).await {
        Ok(_) => Ok(()),
        // It was already deleted or replaced.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(failure("delete", kind, name, error)),
    }
}

/// Creates an object that the cache does not contain.
async fn create(target: Target<'_>, desired: &Child) -> Result<DynamicObject, Error> {
    let created = match desired.write {
        Write::Once => post(target, desired).await,
        Write::Grow | Write::Converge => {
            server_side_apply(target, desired, Some(CREATE_ONLY_VERSION)).await
        }
    };
    match created {
        Err(Error::Api { error, .. }) if exists(&error) => {}
        created => return created,
    }
    // The object exists, but lacks the label of the watch, or is too new for the watch.
    let found = api(target, desired.kind)
        .get(&desired.name)
        .await
        .map_err(|error| failure("get", desired.kind, &desired.name, error))?;
    let mut desired = desired.clone();
    preserve(&found, &mut desired, target.owner)?;
    if adopts(&found, &desired, target.owner) {
        check_owner(target).await?;
    }
    match desired.write {
        Write::Once if is_ours(&found, target.owner) => Ok(found),
        Write::Grow => Ok(found),
        Write::Once | Write::Converge => {
            adopt(target, &found, &desired).await?;
            server_side_apply(target, &desired, None).await
        }
    }
}

/// Whether an object needs no write, or must not be changed any more.
fn is_settled(target: Target<'_>, live: &DynamicObject, desired: &Child) -> bool {
    match desired.write {
        Write::Once => is_ours(live, target.owner),
        Write::Grow => true,
        Write::Converge => is_current(target, live, desired),
    }
}

/// Prepares the managed fields of an existing object, so that our apply can also remove fields.
async fn adopt(target: Target<'_>, live: &DynamicObject, desired: &Child) -> Result<(), Error> {
    if let Some(fields) = managed_fields::adopted_fields(&live.metadata, &target.owner.name) {
        tracing::info!(kind = ?desired.kind, name = desired.name, "adopting object");
        write_managed_fields(target, live, desired, fields).await?;
    }
    // Once an autoscaler controls the replicas, we stop managing the field. Without this step our
    // apply would remove it, and the API server would default it to 1.
    let releases_replicas = desired.kind == Kind::Deployment
        && desired.object["spec"]["replicas"].is_null()
        && !live.data["spec"]["replicas"].is_null();
    if releases_replicas {
        let whole = api(target, desired.kind)
            .get(&desired.name)
            .await
            .map_err(|error| failure("get", desired.kind, &desired.name, error))?;
        if let Some(fields) = managed_fields::released_field(&whole.metadata, &["spec", "replicas"])
        {
            write_managed_fields(target, &whole, desired, fields).await?;
        }
    }
    Ok(())
}

/// Replaces the managed fields of an object. Fails with a conflict if it changed meanwhile.
async fn write_managed_fields(
    target: Target<'_>,
    live: &DynamicObject,
    desired: &Child,
    fields: Vec<ManagedFieldsEntry>,
) -> Result<(), Error> {
    let change = json!({"metadata": {
        "managedFields": fields,
        "resourceVersion": live.metadata.resource_version,
    }});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(change);
    api(target, desired.kind)
        .patch_metadata(&desired.name, &parameters, &patch)
        .await
        .map_err(|error| failure("apply", desired.kind, &desired.name, error))?;
    Ok(())
}

/// Creates an object that is never applied. It costs the API server less than an apply, but the fields would
/// belong to the create request, and no later apply could remove them.
async fn post(target: Target<'_>, desired: &Child) -> Result<DynamicObject, Error> {
    let failed = |error| failure("create", desired.kind, &desired.name, error);
    let body = serde_json::to_vec(&desired.object)
        .map_err(|error| failed(kube::Error::SerdeError(error)))?;
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let request = request(target, desired.kind).create(&parameters, body);
    send(target, desired.kind, request).await.map_err(failed)
}

async fn server_side_apply(
    target: Target<'_>,
    desired: &Child,
    version: Option<&str>,
) -> Result<DynamicObject, Error> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let mut object = Cow::Borrowed(&desired.object);
    if let Some(version) = version {
        object.to_mut()["metadata"]["resourceVersion"] = json!(version);
    }
    let patch = Patch::Apply(&*object);
    let request = request(target, desired.kind).patch(&desired.name, &parameters, &patch);
    let applied = send(target, desired.kind, request).await;
    applied.map_err(|error| failure("apply", desired.kind, &desired.name, error))
}

/// Sends a write, and returns as much of the written object as the cache holds of its kind.
async fn send(
    target: Target<'_>,
    kind: Kind,
    request: Result<http::Request<Vec<u8>>, request::Error>,
) -> Result<DynamicObject, kube::Error> {
    if is_metadata_only(kind) {
        let metadata = metadata_response::send(target.client, request).await?;
        return Ok(DynamicObject {
            types: None,
            metadata,
            data: Value::Null,
        });
    }
    let request = request.map_err(kube::Error::BuildRequest)?;
    let ReceivedObject(written) = target.client.request(request).await?;
    Ok(written)
}

fn request(target: Target<'_>, kind: Kind) -> Request {
    Request::new(api(target, kind).resource_url())
}

/// Copies what must not change from a live object to the desired one. Fails if the object must not be
/// written.
pub(crate) fn preserve(
    live: &DynamicObject,
    desired: &mut Child,
    owner: &Owner,
) -> Result<(), Error> {
    check_ownership(live, desired, owner)?;
    adoption::keep_owner(live, &mut desired.object, &owner.uid);
    if adoption::stays_unowned(desired.kind) && adoption::is_unowned_child(live) {
        adoption::remove_owner(&mut desired.object);
    }
    Ok(())
}

/// Fails unless the resource owns the object, or may adopt it.
fn check_ownership(live: &DynamicObject, desired: &Child, owner: &Owner) -> Result<(), Error> {
    if is_ours(live, owner) || adoption::is_orphan(live, &desired.object) {
        return Ok(());
    }
    Err(Error::NotOurs {
        kind: desired.kind,
        name: desired.name.clone(),
    })
}

/// Whether an object is watched without its content, has the right digest, and was not written since
/// the operator started. Its content may have been changed by others meanwhile.
fn is_unread(target: Target<'_>, live: &DynamicObject, desired: &Child) -> bool {
    let digest = live.labels().get(DESIRED_DIGEST).map(String::as_str);
    live.data.is_null()
        && is_ours(live, target.owner)
        && digest == desired.object["metadata"]["labels"][DESIRED_DIGEST].as_str()
        && managed_fields::adopted_fields(&live.metadata, &target.owner.name).is_none()
}

/// Reads an object, and returns it if it has the desired content.
async fn read_if_current(
    target: Target<'_>,
    desired: &Child,
) -> Result<Option<DynamicObject>, Error> {
    let read = get(target, desired.kind, &desired.name).await?;
    Ok(read.filter(|read| has_content(&read.data, &desired.object)))
}

/// Whether an object needs no write. The digest detects fields that are no longer desired, the
/// comparison detects changes by others. For an object that is watched without its content, the
/// resource version detects changes by others.
fn is_current(target: Target<'_>, live: &DynamicObject, desired: &Child) -> bool {
    let digest = live.labels().get(DESIRED_DIGEST).map(String::as_str);
    if digest != desired.object["metadata"]["labels"][DESIRED_DIGEST].as_str()
        || managed_fields::adopted_fields(&live.metadata, &target.owner.name).is_some()
    {
        return false;
    }
    if live.data.is_null() {
        let objects = target.cache.of(desired.kind);
        return objects
            .is_some_and(|objects| objects.is_as_written(&target.owner.namespace, &desired.name));
    }
    let labels = json!(live.metadata.labels);
    let annotations = json!(live.metadata.annotations.clone().unwrap_or_default());
    let wanted = &desired.object["metadata"]["annotations"];
    let has_owner = is_ours(live, target.owner)
        || (adoption::stays_unowned(desired.kind) && adoption::is_unowned_child(live));
    has_owner
        && contains(&labels, &desired.object["metadata"]["labels"])
        && (wanted.is_null() || contains(&annotations, wanted))
        && has_content(&live.data, &desired.object)
}

/// Compares everything except the metadata and the type, which the API server omits in lists.
fn has_content(live: &Value, desired: &Value) -> bool {
    let mut wanted = desired.as_object().into_iter().flatten();
    wanted.all(|(key, wanted)| {
        ["metadata", "apiVersion", "kind"].contains(&key.as_str()) || contains(&live[key], wanted)
    })
}

pub(super) fn api(target: Target<'_>, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(
        target.client.clone(),
        &target.owner.namespace,
        &kind.resource(),
    )
}

/// Whether an object was not created because it exists.
fn exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

fn failure(verb: &'static str, kind: Kind, name: &str, error: kube::Error) -> Error {
    Error::Api {
        verb,
        kind,
        name: name.to_owned(),
        error: Box::new(error),
    }
}

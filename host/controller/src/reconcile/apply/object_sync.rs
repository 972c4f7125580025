//! One object: what it is, what it should be, and the requests that lead from one to the other.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{Child, DESIRED_DIGEST, Kind, Need, Owner, Write};
use serde_json::{Value, json};

use super::{Error, Target, holds, takeover};

/// A version that no object has. An apply that carries it makes a new object, and fails where there
/// is one that we do not know of.
const NO_VERSION: &str = "1";

/// An object as it should be and as it is.
pub(super) struct Pair {
    desired: Child,
    live: Option<Arc<DynamicObject>>,
}

impl Pair {
    /// Looks at what the view knows.
    pub(super) fn look(target: Target<'_>, mut desired: Child) -> Result<Self, Error> {
        let owner = target.owner;
        let live = target
            .view
            .child(desired.kind, &owner.namespace, &desired.name);
        if let Some(object) = &live {
            fit(object, &mut desired, owner, target.takes_any_release)?;
        }
        Ok(Self { desired, live })
    }

    pub(super) fn kind(&self) -> Kind {
        self.desired.kind
    }

    pub(super) fn need(&self) -> Need {
        self.desired.need
    }

    /// Whether the view knows of no such object.
    pub(super) fn is_new(&self) -> bool {
        self.live.is_none()
    }

    /// Writes the object, unless it is what it should be or cannot be changed.
    pub(super) async fn write(self, target: Target<'_>) -> Result<Arc<DynamicObject>, Error> {
        let Self { desired, live } = self;
        let written = match live {
            Some(live) if desired.write == Write::Once || is_current(target, &live, &desired) => {
                return Ok(live);
            }
            Some(live) => {
                take_over(target, &live, &desired).await?;
                put(target, &desired, None).await?
            }
            None => create(target, &desired).await?,
        };
        target.view.record(desired.kind, written.clone());
        Ok(Arc::new(written))
    }
}

/// Whether an object belongs to a resource.
pub(crate) fn is_ours(object: &DynamicObject, owner: &Owner) -> bool {
    object
        .owner_references()
        .iter()
        .any(|one| one.uid == owner.uid)
}

/// Deletes an object that is still the one that was seen.
pub(super) async fn delete(
    target: Target<'_>,
    kind: Kind,
    name: &str,
    uid: Option<String>,
) -> Result<(), Error> {
    let same = Preconditions {
        uid,
        resource_version: None,
    };
    let parameters = DeleteParams::background().preconditions(same);
    match api(target, kind).delete(name, &parameters).await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Ok(()),
        Err(error) => Err(failure("delete", kind, name, error)),
    }
}

/// Makes an object of which the view knows nothing.
async fn create(target: Target<'_>, desired: &Child) -> Result<DynamicObject, Error> {
    match put(target, desired, Some(NO_VERSION)).await {
        Err(Error::Api { error, .. }) if is_conflict(&error) => {}
        made => return made,
    }
    // It is there, but without the label by which we watch, or the watch has not told of it yet.
    let found = api(target, desired.kind)
        .get(&desired.name)
        .await
        .map_err(|error| failure("give", desired.kind, &desired.name, error))?;
    let mut desired = desired.clone();
    fit(&found, &mut desired, target.owner, target.takes_any_release)?;
    if desired.write == Write::Once {
        return Ok(found);
    }
    take_over(target, &found, &desired).await?;
    put(target, &desired, None).await
}

/// Makes sure that our apply decides about every field that it should decide about.
async fn take_over(target: Target<'_>, live: &DynamicObject, desired: &Child) -> Result<(), Error> {
    if let Some(fields) = takeover::moved(&live.metadata, &target.owner.name) {
        tracing::info!(kind = ?desired.kind, name = desired.name, "taking over");
        manage(target, live, desired, fields).await?;
    }
    // A number of pods that the autoscaler decides must not fall back to one when we let go of it.
    let lets_go = desired.kind == Kind::Deployment
        && desired.object["spec"]["replicas"].is_null()
        && !live.data["spec"]["replicas"].is_null();
    if lets_go {
        let whole = api(target, desired.kind)
            .get(&desired.name)
            .await
            .map_err(|error| failure("give", desired.kind, &desired.name, error))?;
        if let Some(fields) = takeover::released(&whole.metadata, &["spec", "replicas"]) {
            manage(target, &whole, desired, fields).await?;
        }
    }
    Ok(())
}

/// Writes who manages which field, if nobody has changed the object meanwhile.
async fn manage(
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
        .map_err(|error| failure("take", desired.kind, &desired.name, error))?;
    Ok(())
}

async fn put(
    target: Target<'_>,
    desired: &Child,
    version: Option<&str>,
) -> Result<DynamicObject, Error> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let api = api(target, desired.kind);
    let answer = match version {
        Some(version) => {
            let mut object = desired.object.clone();
            object["metadata"]["resourceVersion"] = json!(version);
            api.patch(&desired.name, &parameters, &Patch::Apply(object))
                .await
        }
        None => {
            let object = &desired.object;
            api.patch(&desired.name, &parameters, &Patch::Apply(object))
                .await
        }
    };
    answer.map_err(|error| failure("take", desired.kind, &desired.name, error))
}

/// Makes what is desired keep what must not change of an object that is there, if it may be written.
pub(crate) fn fit(
    live: &DynamicObject,
    desired: &mut Child,
    owner: &Owner,
    takes_any_release: bool,
) -> Result<(), Error> {
    judge(live, desired, owner)?;
    takeover::keep_owner(live, &mut desired.object, &owner.uid);
    if desired.kind == Kind::Deployment {
        takeover::keep_pods(live, &mut desired.object, takes_any_release);
    }
    Ok(())
}

/// Whether an object may be written: it is ours, or nobody's and made for us.
fn judge(live: &DynamicObject, desired: &Child, owner: &Owner) -> Result<(), Error> {
    let is_orphan =
        || desired.kind == Kind::Deployment && takeover::is_orphan(live, &desired.object);
    if is_ours(live, owner) || is_orphan() {
        return Ok(());
    }
    Err(Error::NotOurs {
        kind: desired.kind,
        name: desired.name.clone(),
    })
}

/// Whether an object was written for what is desired now, and nobody has changed it since. The
/// digest tells of fields that are no longer wanted, the comparison of fields that others changed; of
/// an object that is watched without its content, the version tells.
fn is_current(target: Target<'_>, live: &DynamicObject, desired: &Child) -> bool {
    let digest = live.labels().get(DESIRED_DIGEST).map(String::as_str);
    if digest != desired.object["metadata"]["labels"][DESIRED_DIGEST].as_str()
        || takeover::moved(&live.metadata, &target.owner.name).is_some()
    {
        return false;
    }
    if live.data.is_null() {
        let cache = target.view.of(desired.kind);
        return cache
            .is_some_and(|cache| cache.is_as_written(&target.owner.namespace, &desired.name));
    }
    let labels = json!(live.metadata.labels);
    let annotations = json!(live.metadata.annotations.clone().unwrap_or_default());
    let wanted = &desired.object["metadata"]["annotations"];
    is_ours(live, target.owner)
        && holds(&labels, &desired.object["metadata"]["labels"])
        && (wanted.is_null() || holds(&annotations, wanted))
        && has_content(&live.data, &desired.object)
}

/// Everything but the metadata and the type, which the API server may leave out in lists.
fn has_content(live: &Value, desired: &Value) -> bool {
    let mut wanted = desired.as_object().into_iter().flatten();
    wanted.all(|(key, wanted)| {
        ["metadata", "apiVersion", "kind"].contains(&key.as_str()) || holds(&live[key], wanted)
    })
}

fn api(target: Target<'_>, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(
        target.client.clone(),
        &target.owner.namespace,
        &kind.resource(),
    )
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.is_conflict())
}

fn failure(verb: &'static str, kind: Kind, name: &str, error: kube::Error) -> Error {
    Error::Api {
        verb,
        kind,
        name: name.to_owned(),
        error: Box::new(error),
    }
}

//! Grows the volume claim of a resource.
//!
//! Everything of a claim is immutable except its requested storage, which can only grow, and only if
//! the StorageClass allows it. A claim never shrinks: it holds data.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{Child, is_smaller_quantity};
use serde_json::{Value, json};

use super::Target;
use super::object_sync::{api, is_ours};

/// What must happen to a claim.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Grow,
    /// It is larger than the resource asks for.
    CannotShrink {
        from: String,
    },
}

/// Grows the live claim if the resource asks for more. Returns why it has another size than that.
pub(super) async fn grow(target: Target<'_>, desired: &Child) -> Option<String> {
    let namespace = &target.owner.namespace;
    let live = target.cache.child(desired.kind, namespace, &desired.name)?;
    if let Err(problem) = release(target, &live, desired).await {
        return Some(problem);
    }
    let size = requested(&desired.object)?;
    if let Some(problem) = immutable_difference(&live, &desired.object) {
        return Some(problem);
    }
    match change(&live, &size) {
        Change::Nothing => None,
        Change::CannotShrink { from } => Some(format!(
            "spec.workload.storage.size is {}, but the volume has {from}, and volumes cannot shrink; correct the size, or move the data to a new resource",
            size.0
        )),
        Change::Grow => {
            let growth = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            let parameters = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let grown = api(target, desired.kind)
                .patch(&desired.name, &parameters, &Patch::Merge(&growth))
                .await;
            match grown {
                Ok(written) => {
                    target.cache.record(desired.kind, written);
                    None
                }
                Err(error) => Some(format!(
                    "failed to grow PersistentVolumeClaim {:?} to {}: {error}; the server keeps its present volume",
                    desired.name, size.0
                )),
            }
        }
    }
}

/// Removes the owner of a claim that must stay when the resource is deleted.
async fn release(target: Target<'_>, live: &DynamicObject, desired: &Child) -> Result<(), String> {
    let is_retained = desired.object["metadata"]["ownerReferences"].is_null();
    if !is_retained || !is_ours(live, target.owner) {
        return Ok(());
    }
    let others = live.owner_references().iter();
    let others: Vec<_> = others.filter(|one| one.uid != target.owner.uid).collect();
    let released = json!({"metadata": {
        "ownerReferences": others,
        "resourceVersion": live.metadata.resource_version,
    }});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let written = api(target, desired.kind)
        .patch(&desired.name, &parameters, &Patch::Merge(&released))
        .await;
    match written {
        Ok(written) => {
            target.cache.record(desired.kind, written);
            Ok(())
        }
        Err(error) => Err(format!(
            "failed to retain PersistentVolumeClaim {:?}: {error}; it would be deleted with the resource",
            desired.name
        )),
    }
}

/// A field of the claim that the resource sets to another value, and that cannot change any more.
fn immutable_difference(live: &DynamicObject, desired: &Value) -> Option<String> {
    for (key, field) in [
        ("storageClassName", "spec.workload.storage.storageClassName"),
        ("accessModes", "spec.workload.storage.accessModes"),
    ] {
        let (wanted, found) = (&desired["spec"][key], &live.data["spec"][key]);
        if !wanted.is_null() && !found.is_null() && wanted != found {
            return Some(format!(
                "{field} is {wanted}, but the volume has {found}, which cannot be changed; correct the field, or move the data to a new resource"
            ));
        }
    }
    None
}

/// The claim with the size that the resource asks for, as a preview shows it.
pub(crate) fn grown(live: &DynamicObject, desired: &Child) -> DynamicObject {
    let mut grown = live.clone();
    if let Some(size) = requested(&desired.object)
        && change(live, &size) == Change::Grow
    {
        grown.data["spec"]["resources"]["requests"]["storage"] = json!(size);
    }
    grown
}

fn change(live: &DynamicObject, desired: &Quantity) -> Change {
    let Some(requested) = requested(&live.data) else {
        return Change::Nothing;
    };
    if is_smaller_quantity(&requested, desired) {
        // The API server grows only bound claims. A watch reports when this one is.
        match live.data["status"]["phase"].as_str() {
            Some("Bound") => Change::Grow,
            _ => Change::Nothing,
        }
    } else if is_smaller_quantity(desired, &requested) {
        Change::CannotShrink { from: requested.0 }
    } else {
        Change::Nothing
    }
}

fn requested(claim: &Value) -> Option<Quantity> {
    let size = claim["spec"]["resources"]["requests"]["storage"].as_str()?;
    Some(Quantity(size.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_grows_and_never_shrinks() {
        let in_phase = |phase: &str, size: &str| -> DynamicObject {
            let spec = json!({"resources": {"requests": {"storage": size}}});
            let metadata = json!({"name": "demo-pvc"});
            let claim = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
            serde_json::from_value(claim).expect("a claim")
        };
        let claim = |size: &str| in_phase("Bound", size);
        let size = |text: &str| Quantity(text.to_owned());
        assert_eq!(change(&claim("10Gi"), &size("20Gi")), Change::Grow);
        assert_eq!(change(&claim("10Gi"), &size("10240Mi")), Change::Nothing);
        let pending = in_phase("Pending", "10Gi");
        assert_eq!(change(&pending, &size("20Gi")), Change::Nothing);
        let from = "10Gi".to_owned();
        assert_eq!(
            change(&claim("10Gi"), &size("5Gi")),
            Change::CannotShrink { from }
        );
    }

    #[test]
    fn a_class_or_mode_that_differs_from_the_volume_is_reported() {
        let live: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "demo-pvc"},
            "spec": {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"]},
        }))
        .expect("a claim");
        let difference = |spec: Value| immutable_difference(&live, &json!({"spec": spec}));
        assert_eq!(difference(json!({"accessModes": ["ReadWriteOnce"]})), None);
        assert_eq!(difference(json!({"storageClassName": "slow"})), None);
        let found = difference(json!({"storageClassName": "fast"})).expect("a difference");
        assert!(
            found.starts_with(
                "spec.workload.storage.storageClassName is \"fast\", but the volume has \"slow\""
            ),
            "{found}"
        );
        assert!(difference(json!({"accessModes": ["ReadWriteMany"]})).is_some());
    }
}

//! Projections: the parts of watched objects that reconciliations use. Only these are cached.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::PartialObjectMeta;
use llsd_api::{KIND, labels};
use llsd_render::objects::{DESIRED_DIGEST, Kind};
use serde_json::{Value, json};

use super::upstream::may_need_adoption;

/// Annotation of `kubectl apply` with a second copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The labels that reconciliations read.
const PROJECTED_LABELS: [&str; 4] = [
    labels::MANAGED_BY,
    labels::INSTANCE,
    labels::COMPONENT,
    DESIRED_DIGEST,
];
const CONFIG_MAPS: &str = "configMaps";

/// A child object, with its status only for kinds whose status is reported, and with its managed
/// fields only if it may need adoption.
pub(super) fn child(kind: Kind, mut object: DynamicObject) -> DynamicObject {
    if is_metadata_only(kind) {
        return metadata(object.metadata);
    }
    if !may_need_adoption(&object.metadata) {
        object.metadata.managed_fields = None;
    }
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Value::Object(data) = &mut object.data {
        match (kind, data.get_mut("status")) {
            (Kind::Deployment, Some(status)) => drop_times(status),
            (Kind::PersistentVolumeClaim, Some(_)) | (_, None) => {}
            (kind, Some(_)) if kind.has_address() => {}
            (_, Some(_)) => {
                data.remove("status");
            }
        }
    }
    // Deserialized collections have spare capacity; a clone has none.
    object.data = object.data.clone();
    object
}

/// The metadata of a recorded resolution.
pub(super) fn revision(full: ObjectMeta) -> DynamicObject {
    DynamicObject {
        types: None,
        metadata: ObjectMeta {
            name: full.name,
            namespace: full.namespace,
            uid: full.uid,
            resource_version: full.resource_version,
            owner_references: full.owner_references,
            annotations: full.annotations,
            ..ObjectMeta::default()
        },
        data: Value::Null,
    }
}

/// Whether objects of a kind are watched without their content.
pub(crate) fn is_metadata_only(kind: Kind) -> bool {
    matches!(kind, Kind::ConfigMap | Kind::Secret)
}

/// An object of which only the metadata is used.
pub(super) fn metadata(full: ObjectMeta) -> DynamicObject {
    let is_child = full
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.kind == KIND);
    let managed_fields = if is_child && may_need_adoption(&full) {
        full.managed_fields
    } else {
        None
    };
    let labels = full.labels.map(|mut all| {
        all.retain(|key, _| PROJECTED_LABELS.contains(&key.as_str()));
        all
    });
    DynamicObject {
        types: None,
        metadata: ObjectMeta {
            name: full.name,
            namespace: full.namespace,
            uid: full.uid,
            resource_version: full.resource_version,
            creation_timestamp: full.creation_timestamp,
            owner_references: full.owner_references,
            labels,
            managed_fields,
            ..ObjectMeta::default()
        },
        data: Value::Null,
    }
}

/// An object that was watched as metadata only.
pub(super) fn partial<K>(object: PartialObjectMeta<K>) -> DynamicObject {
    metadata(object.metadata)
}

/// A ReplicaSet, reduced to the ConfigMaps that its pods mount. Empty while it has no pods.
pub(super) fn replica_set(set: ReplicaSet) -> DynamicObject {
    let mut projected = metadata(set.metadata);
    projected.metadata.owner_references = None;
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
    let has_pods = wanted.unwrap_or(1) > 0 || set.status.is_some_and(|status| status.replicas > 0);
    let volumes = set
        .spec
        .filter(|_| has_pods)
        .and_then(|spec| spec.template?.spec?.volumes);
    let mounted: Vec<String> = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| Some(volume.config_map?.name))
        .collect();
    projected.data = json!({ CONFIG_MAPS: mounted });
    projected
}

/// The ConfigMaps that the pods of a cached ReplicaSet mount.
pub(crate) fn mounted_config_maps(set: &DynamicObject) -> impl Iterator<Item = &str> {
    set.data[CONFIG_MAPS]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Removes the times of a Deployment's conditions, which change without any other change.
fn drop_times(status: &mut Value) {
    let conditions = status["conditions"].as_array_mut().into_iter().flatten();
    for condition in conditions.filter_map(Value::as_object_mut) {
        condition.remove("lastUpdateTime");
        condition.remove("lastTransitionTime");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_set_without_pods_mounts_nothing() {
        let set = |replicas: i32| {
            let template = json!({"spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "m"}}]}});
            let set = json!({"metadata": {"name": "s"}, "spec": {"replicas": replicas, "selector": {}, "template": template}});
            replica_set(serde_json::from_value(set).expect("a ReplicaSet"))
        };
        assert_eq!(mounted_config_maps(&set(1)).collect::<Vec<_>>(), ["m"]);
        assert_eq!(mounted_config_maps(&set(0)).count(), 0);
    }
}

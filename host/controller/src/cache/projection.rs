//! Projections: the parts of watched objects that reconciliations use. Only these are cached.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::PartialObjectMeta;
use llsd_api::{KIND, labels};
use llsd_render::objects::{DESIRED_DIGEST, Kind};
use serde_json::{Value, json};

use super::upstream::may_need_adoption;

/// Annotation of `kubectl apply` with a second copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Reasons of waiting containers that are part of every normal start.
const NORMAL_WAITING_REASONS: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// The labels that reconciliations read.
const PROJECTED_LABELS: [&str; 3] = [labels::INSTANCE, labels::COMPONENT, DESIRED_DIGEST];
const PROBLEM: &str = "problem";
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
            (Kind::PersistentVolumeClaim | Kind::Ingress | Kind::Route, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                data.remove("status");
            }
        }
    }
    // Deserialized collections have spare capacity; a clone has none.
    object.data = object.data.clone();
    object
}

/// Whether objects of a kind are watched without their content.
pub(super) fn is_metadata_only(kind: Kind) -> bool {
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

/// A pod, reduced to the problem that keeps it from running.
pub(super) fn pod(pod: Pod) -> DynamicObject {
    let mut projected = metadata(pod.metadata.clone());
    projected.metadata.owner_references = None;
    projected.data = json!({ PROBLEM: find_pod_problem(&pod) });
    projected
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

/// The problem that keeps a cached pod from running.
pub(crate) fn pod_problem(pod: &DynamicObject) -> Option<&str> {
    pod.data[PROBLEM].as_str()
}

/// The ConfigMaps that the pods of a cached ReplicaSet mount.
pub(crate) fn mounted_config_maps(set: &DynamicObject) -> impl Iterator<Item = &str> {
    set.data[CONFIG_MAPS]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn find_pod_problem(pod: &Pod) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.as_ref()?;
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        return Some(with_message(
            condition.reason.as_deref().unwrap_or("Unscheduled"),
            condition.message.as_deref(),
        ));
    }
    let init = status.init_container_statuses.iter().flatten();
    let all = init.chain(status.container_statuses.iter().flatten());
    all.filter_map(|container| {
        let found = container_problem(container)?;
        Some(format!("container {:?}: {found}", container.name))
    })
    .next()
}

fn container_problem(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if reason.is_empty() || NORMAL_WAITING_REASONS.contains(&reason) {
            return None;
        }
        // The message of the last termination is more useful than "back-off restarting".
        let last_termination = container
            .last_state
            .as_ref()
            .and_then(|last| last.terminated.as_ref());
        let message = last_termination.and_then(|last| last.message.as_deref());
        return Some(with_message(reason, message.or(waiting.message.as_deref())));
    }
    let terminated = state.terminated.as_ref().filter(|one| one.exit_code != 0)?;
    let reason = terminated.reason.as_deref().unwrap_or("Error");
    let exit = format!("exit code {}", terminated.exit_code);
    Some(with_message(
        reason,
        terminated.message.as_deref().or(Some(&exit)),
    ))
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message.map(str::trim).filter(|text| !text.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
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

    fn problem_in(status: Value) -> Option<String> {
        let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status}));
        pod_problem(&super::pod(pod.expect("a pod"))).map(str::to_owned)
    }

    #[test]
    fn a_starting_pod_has_no_problem() {
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting});
        assert_eq!(problem_in(json!({"containerStatuses": [container]})), None);
    }

    #[test]
    fn a_crash_is_reported_with_the_message_of_the_container() {
        let container = json!({
            "name": "llama-stack", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "ValueError: no such model\n"}},
        });
        assert_eq!(
            problem_in(json!({"containerStatuses": [container]})).as_deref(),
            Some("container \"llama-stack\": CrashLoopBackOff: ValueError: no such model")
        );
    }

    #[test]
    fn an_unschedulable_pod_is_reported_with_the_reason() {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"});
        assert_eq!(
            problem_in(json!({"conditions": [condition]})).as_deref(),
            Some("Unschedulable: 0/1 nodes are available")
        );
    }

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

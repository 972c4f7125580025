//! The progress of a rollout.

use k8s_openapi::api::apps::v1::DeploymentStatus;
use kube::api::DynamicObject;
use serde::Deserialize;

/// The progress of a Deployment.
pub(super) struct Rollout {
    /// Generation of the Deployment's spec.
    pub(super) generation: Option<i64>,
    /// The desired number of pods, which an autoscaler may have set.
    pub(super) desired: i32,
    /// The number of ready pods.
    pub(super) ready: i32,
    /// Whether enough pods are available, old or new.
    pub(super) is_available: bool,
    /// Whether all pods have the current template and are available.
    pub(super) is_done: bool,
    /// Why the Deployment controller stopped waiting for progress.
    pub(super) stuck: Option<String>,
    /// Why the API server rejects the pods, in its own words.
    pub(super) replica_failure: Option<String>,
    /// Whether the kubelet asks the server again and again whether it answers. Pods that were adopted
    /// may have no readiness probe: they stay ready after their start.
    pub(super) has_readiness_probe: bool,
    /// The number of pods, ready or not.
    pub(super) replicas: i32,
}

impl Rollout {
    pub(super) fn of(deployment: &DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = deployment;
        let desired = i32::deserialize(&data["spec"]["replicas"]).unwrap_or(1);
        // A new Deployment has no status yet.
        let status = DeploymentStatus::deserialize(&data["status"]).unwrap_or_default();
        let is_observed = status.observed_generation >= metadata.generation;
        let [updated, available, total] = [
            status.updated_replicas,
            status.available_replicas,
            status.replicas,
        ]
        .map(Option::unwrap_or_default);
        let condition = |kind: &str, status_text: &str| {
            status
                .conditions
                .iter()
                .flatten()
                .find(|one| one.type_ == kind && one.status == status_text)
        };
        Self {
            generation: metadata.generation,
            desired,
            ready: status.ready_replicas.unwrap_or_default(),
            is_available: condition("Available", "True").is_some(),
            is_done: is_observed && updated >= desired && available >= desired && total == updated,
            stuck: condition("Progressing", "False")
                .map(|one| one.message.clone().unwrap_or_default()),
            replica_failure: condition("ReplicaFailure", "True")
                .map(|one| one.message.clone().unwrap_or_default()),
            has_readiness_probe:
                !data["spec"]["template"]["spec"]["containers"][0]["readinessProbe"].is_null(),
            replicas: total,
        }
    }

    /// Why the rollout cannot go on without someone's help.
    pub(super) fn failure(&self) -> Option<&str> {
        let failure = self.replica_failure.as_deref();
        failure.or(self.stuck.as_deref()).filter(|_| !self.is_done)
    }

    /// For example `1 of 2 pods are ready`.
    pub(super) fn count(&self) -> String {
        format!("{} of {} pods are ready", self.ready, self.desired)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rollout(replicas: i32, status: serde_json::Value) -> Rollout {
        let deployment = json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": status,
        });
        Rollout::of(&serde_json::from_value(deployment).expect("a Deployment"))
    }

    #[test]
    fn a_rollout_with_available_old_pods_is_not_done() {
        let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
        let rollout = rollout(1, status);
        assert!(rollout.is_available && !rollout.is_done);
    }

    #[test]
    fn the_status_of_an_older_generation_does_not_count() {
        let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
        assert!(!rollout(1, status).is_done);
    }

    #[test]
    fn a_rollout_without_desired_pods_is_done() {
        assert!(rollout(0, json!({"observedGeneration": 2})).is_done);
    }
}

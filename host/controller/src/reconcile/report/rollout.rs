//! How far the pods are.

use k8s_openapi::api::apps::v1::DeploymentStatus;
use kube::api::DynamicObject;
use serde::Deserialize;

/// A Deployment on its way to what it should be.
pub(super) struct Rollout {
    /// Counts the changes of what it should be.
    pub(super) generation: Option<i64>,
    /// Pods that should be there; with an autoscaler, what that has decided.
    pub(super) wanted: i32,
    /// Pods that are ready.
    pub(super) ready: i32,
    /// Whether enough pods serve, be they old or new.
    pub(super) is_serving: bool,
    /// Whether all pods are new and serve.
    pub(super) is_done: bool,
    /// Why the cluster has given up waiting.
    pub(super) stuck: Option<String>,
}

impl Rollout {
    pub(super) fn of(deployment: &DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = deployment;
        let wanted = i32::deserialize(&data["spec"]["replicas"]).unwrap_or(1);
        // Before the cluster has looked at it there is none.
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
            wanted,
            ready: status.ready_replicas.unwrap_or_default(),
            is_serving: condition("Available", "True").is_some(),
            is_done: is_observed && updated >= wanted && available >= wanted && total == updated,
            stuck: condition("Progressing", "False")
                .map(|one| one.message.clone().unwrap_or_default()),
        }
    }

    /// `1 of 2 pods are ready`.
    pub(super) fn count(&self) -> String {
        format!("{} of {} pods are ready", self.ready, self.wanted)
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
    fn old_pods_that_still_serve_are_not_the_end_of_a_rollout() {
        let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
        let rollout = rollout(1, status);
        assert!(rollout.is_serving && !rollout.is_done);
    }

    #[test]
    fn a_status_that_speaks_of_an_older_spec_does_not_count() {
        let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
        assert!(!rollout(1, status).is_done);
    }

    #[test]
    fn no_pods_are_complete_where_none_are_wanted() {
        assert!(rollout(0, json!({"observedGeneration": 2})).is_done);
    }
}

//! Whether the pods of a Deployment have its newest template and are available.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use llsd_render::objects::{DESIRED_DIGEST, FrozenObjects};
use serde_json::Value;

/// The state of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeploymentState {
    /// All pods have the newest template and are available.
    Available,
    /// Pods are being replaced, or the template is not written yet.
    Progressing,
    /// The API server refuses the first new pod. The Deployment controller does not apply the progress
    /// deadline if an earlier rollout of the same template succeeded, because it finds that ReplicaSet.
    Refused { message: String, deadline: Duration },
    /// The pods did not become available within the progress deadline.
    Failed(String),
}

impl DeploymentState {
    /// The state of the Deployment of some objects. `None`: there is no Deployment.
    pub(crate) fn of(live: Option<&DynamicObject>, objects: &FrozenObjects) -> Self {
        let Some(live) = live else {
            return Self::Progressing;
        };
        let written = live.labels().get(DESIRED_DIGEST).map(String::as_str);
        let status = &live.data["status"];
        let is_observed = status["observedGeneration"].as_i64() >= live.metadata.generation;
        if written != objects.deployment_digest() || !is_observed {
            return Self::Progressing;
        }
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        let desired = live.data["spec"]["replicas"].as_i64().unwrap_or(1);
        let (updated, available) = (number("updatedReplicas"), number("availableReplicas"));
        if updated >= desired && available >= desired && number("replicas") == updated {
            return Self::Available;
        }
        let condition = |kind: &str, value: &str| {
            let mut all = status["conditions"].as_array().into_iter().flatten();
            let found = all.find(|one| one["type"] == kind && one["status"] == value);
            found.map(|one: &Value| one["message"].as_str().unwrap_or_default().to_owned())
        };
        if let Some(message) = condition("Progressing", "False") {
            return Self::Failed(message);
        }
        match condition("ReplicaFailure", "True").filter(|_| updated == 0) {
            Some(message) => Self::Refused {
                message,
                deadline: deadline(live),
            },
            None => Self::Progressing,
        }
    }
}

/// The progress deadline of a Deployment. Kubernetes sets 600 seconds if it has none.
fn deadline(live: &DynamicObject) -> Duration {
    let stated = live.data["spec"]["progressDeadlineSeconds"].as_u64();
    Duration::from_secs(stated.unwrap_or(600))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(status: Value) -> DeploymentState {
        let deployment = json!({
            "metadata": {"name": "demo", "generation": 2, "labels": {DESIRED_DIGEST: "1"}},
            "spec": {"replicas": 1, "progressDeadlineSeconds": 10},
        });
        let child = json!({
            "kind": "Deployment", "name": "demo", "write": "Converge", "need": "Essential",
            "object": deployment,
        });
        let frozen = json!({"before": [], "deployment": child, "after": []});
        let frozen: FrozenObjects = serde_json::from_value(frozen).expect("objects");
        let mut live = deployment;
        live["status"] = status;
        let live: DynamicObject = serde_json::from_value(live).expect("a Deployment");
        DeploymentState::of(Some(&live), &frozen)
    }

    #[test]
    fn a_deployment_whose_first_new_pod_is_refused_waits_for_the_deadline() {
        let refused = |updated: i64, progressing: &str| {
            state(json!({
                "observedGeneration": 2, "replicas": 1, "updatedReplicas": updated,
                "conditions": [
                    {"type": "Progressing", "status": progressing, "message": "timed out"},
                    {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
                ],
            }))
        };
        let expected = DeploymentState::Refused {
            message: "exceeded quota".to_owned(),
            deadline: Duration::from_secs(10),
        };
        assert_eq!(refused(0, "True"), expected);
        // The Deployment controller has seen progress, so it applies the deadline itself.
        assert_eq!(refused(1, "True"), DeploymentState::Progressing);
        let failed = DeploymentState::Failed("timed out".to_owned());
        assert_eq!(refused(0, "False"), failed);
    }
}

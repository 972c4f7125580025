//! Whether the pods of a Deployment have its newest template and are available.

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
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut stuck = conditions
            .filter(|one| one["type"] == "Progressing" && one["status"] == "False")
            .map(|one: &Value| one["message"].as_str().unwrap_or_default().to_owned());
        stuck.next().map_or(Self::Progressing, Self::Failed)
    }
}

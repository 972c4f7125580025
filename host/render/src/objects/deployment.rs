//! The Deployment: how many pods, and how they are replaced. What a pod is stands in `pod`.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::{ConfigPlan, Owner, metadata, pod, selector, text_map};
use crate::digest;

/// Annotation of the pods: a digest of the file they read.
const CONFIG_DIGEST: &str = "configmap.hash/user-config";

pub(super) fn deployment(
    checked: &Checked,
    image: &str,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Deployment {
    Deployment {
        metadata: metadata(owner, ""),
        spec: Some(DeploymentSpec {
            replicas: Some(checked.workload.replicas()),
            strategy: Some(strategy(checked)),
            selector: LabelSelector {
                match_labels: Some(selector(owner)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(selector(owner)),
                    annotations: config_digest(plan)
                        .map(|digest| text_map([(CONFIG_DIGEST, digest.as_str())])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod::pod(checked, image, plan, owner)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// A volume can be attached to one node at a time, so its pod goes before the next one comes. The
/// defaults of the other strategy are written out: only a field that is ours is removed from the
/// cluster when we stop sending it, and `Recreate` is refused beside them.
fn strategy(checked: &Checked) -> DeploymentStrategy {
    if checked.workload.volume.is_some() {
        return DeploymentStrategy {
            type_: Some("Recreate".to_owned()),
            rolling_update: None,
        };
    }
    let quarter = IntOrString::String("25%".to_owned());
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(quarter.clone()),
            max_unavailable: Some(quarter),
        }),
    }
}

fn config_digest(plan: &ConfigPlan) -> Option<String> {
    match plan {
        ConfigPlan::Generated(generated) => Some(digest::of(generated.yaml.as_bytes())),
        ConfigPlan::Override { digest, .. } => Some(digest.clone()),
        ConfigPlan::DistributionDefault => None,
    }
}

//! The Deployment: the number of pods, the rollout strategy, and the annotations that cause a rollout.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::metadata::{metadata, selector};
use super::{ConfigPlan, ObjectInputs, SECRETS_DIGEST, pod, pod_template};
use crate::digest;

/// Pod annotation: a digest of the server configuration.
const CONFIG_DIGEST: &str = "configmap.hash/user-config";
/// Pod annotation: a digest of the CA bundle.
const CA_BUNDLE_DIGEST: &str = "configmap.hash/ca-bundle";

pub(super) fn deployment(inputs: &ObjectInputs<'_>) -> Deployment {
    let &ObjectInputs { checked, owner, .. } = inputs;
    // With an autoscaler, ours or one that the resource does not know, `replicas` must not be set: the
    // autoscaler changes it. The API server starts a new Deployment with one pod.
    let replicas = match &checked.workload.autoscaling {
        Some(_) => None,
        None => checked.workload.requested_replicas,
    };
    Deployment {
        metadata: metadata(owner, ""),
        spec: Some(DeploymentSpec {
            replicas,
            strategy: Some(strategy(checked)),
            progress_deadline_seconds: Some(pod::progress_deadline(checked)),
            selector: LabelSelector {
                match_labels: Some(selector(owner)),
                ..LabelSelector::default()
            },
            template: pod_template::merge(
                inputs,
                PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(selector(owner)),
                        annotations: annotations(inputs),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(pod::pod(inputs)),
                },
            ),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// The annotations of the pod template. A change of one replaces the pods.
fn annotations(inputs: &ObjectInputs<'_>) -> Option<BTreeMap<String, String>> {
    let ca_bundle = inputs.ca_bundle.map(|trusted| trusted.digest.clone());
    let digests = [
        (CONFIG_DIGEST, config_digest(inputs.plan)),
        (CA_BUNDLE_DIGEST, ca_bundle),
        (SECRETS_DIGEST, inputs.secrets_digest.map(str::to_owned)),
    ];
    let annotations: BTreeMap<_, _> = digests
        .into_iter()
        .filter_map(|(name, digest)| Some((name.to_owned(), digest?)))
        .collect();
    (!annotations.is_empty()).then_some(annotations)
}

/// `Recreate` for a pod with a persistent volume that can be attached to one node at a time, and
/// `RollingUpdate` otherwise. The defaults of `RollingUpdate` are set explicitly, so that server-side
/// apply removes them when the strategy changes. The API server rejects `Recreate` together with them.
fn strategy(checked: &Checked) -> DeploymentStrategy {
    let volume = checked.workload.volume.as_ref();
    if volume.is_some_and(|volume| !volume.is_shared()) {
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

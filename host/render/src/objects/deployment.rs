//! The Deployment: how many pods, and how they are replaced. What a pod is stands in `pod`.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::{ConfigPlan, ObjectInputs, SECRETS_DIGEST, metadata, pod, selector};
use crate::digest;

/// Annotation of the pods: a digest of the file they read.
const CONFIG_DIGEST: &str = "configmap.hash/user-config";
/// Annotation of the pods: a digest of the certificates they trust.
const TRUST_DIGEST: &str = "configmap.hash/ca-bundle";

pub(super) fn deployment(inputs: &ObjectInputs<'_>) -> Deployment {
    let &ObjectInputs { checked, owner, .. } = inputs;
    // The autoscaler owns the number of pods.
    let replicas = match &checked.workload.autoscaling {
        Some(_) => None,
        None => Some(checked.workload.replicas()),
    };
    Deployment {
        metadata: metadata(owner, ""),
        spec: Some(DeploymentSpec {
            replicas,
            strategy: Some(strategy(checked)),
            selector: LabelSelector {
                match_labels: Some(selector(owner)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(selector(owner)),
                    annotations: annotations(inputs),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod::pod(inputs)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// What replaces the pods when it changes.
fn annotations(inputs: &ObjectInputs<'_>) -> Option<BTreeMap<String, String>> {
    let trust = inputs
        .trust
        .map(|bundle| digest::of(bundle.as_str().as_bytes()));
    let digests = [
        (CONFIG_DIGEST, config_digest(inputs.plan)),
        (TRUST_DIGEST, trust),
        (SECRETS_DIGEST, inputs.secrets_digest.map(str::to_owned)),
    ];
    let annotations: BTreeMap<_, _> = digests
        .into_iter()
        .filter_map(|(name, digest)| Some((name.to_owned(), digest?)))
        .collect();
    (!annotations.is_empty()).then_some(annotations)
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

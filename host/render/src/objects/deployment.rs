//! The Deployment: how many pods, and how they are replaced. What a pod is stands in `pod`.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::{ConfigPlan, ObjectInputs, metadata, pod, selector, text_map};
use crate::digest;

/// Annotation of the pods: a digest of the file they read.
const CONFIG_DIGEST: &str = "configmap.hash/user-config";

/// Annotation of the pods: changes with the secret values that they are given.
const SECRETS_DIGEST: &str = "llamastack.io/secrets-digest";

pub(super) fn deployment(inputs: &ObjectInputs<'_>) -> Deployment {
    let &ObjectInputs {
        checked,
        image,
        plan,
        secrets_digest: _,
        owner,
    } = inputs;
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
                    annotations: annotations(inputs),
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

/// What replaces the pods when it changes.
fn annotations(inputs: &ObjectInputs<'_>) -> Option<BTreeMap<String, String>> {
    let config = config_digest(inputs.plan);
    let digests = [
        (CONFIG_DIGEST, config.as_deref()),
        (SECRETS_DIGEST, inputs.secrets_digest),
    ];
    let known = digests
        .into_iter()
        .filter_map(|(key, digest)| Some((key, digest?)));
    Some(text_map(known)).filter(|annotations| !annotations.is_empty())
}

fn config_digest(plan: &ConfigPlan) -> Option<String> {
    match plan {
        ConfigPlan::Generated(generated) => Some(digest::of(generated.yaml.as_bytes())),
        ConfigPlan::Override { digest, .. } => Some(digest.clone()),
        ConfigPlan::DistributionDefault => None,
    }
}

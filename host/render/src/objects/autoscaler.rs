//! The HorizontalPodAutoscaler.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use llsd_api::checked::{Checked, CheckedAutoscaling};

use super::Owner;
use super::metadata::metadata;

pub(super) const SUFFIX: &str = "-hpa";
/// Target CPU utilization, if the resource sets no target.
const DEFAULT_CPU_PERCENT: i32 = 80;

pub(super) fn autoscaler(checked: &Checked, owner: &Owner) -> Option<HorizontalPodAutoscaler> {
    let scaling = checked.workload.autoscaling.as_ref()?;
    Some(HorizontalPodAutoscaler {
        metadata: metadata(owner, SUFFIX),
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: "Deployment".to_owned(),
                name: owner.name.clone(),
            },
            min_replicas: Some(min_replicas(checked, scaling)),
            max_replicas: scaling.max_replicas,
            metrics: Some(metrics(scaling)),
            ..HorizontalPodAutoscalerSpec::default()
        }),
        ..HorizontalPodAutoscaler::default()
    })
}

/// At least `replicas`, as in llama-stack-k8s-operator: adopting a resource must not remove pods.
fn min_replicas(checked: &Checked, scaling: &CheckedAutoscaling) -> i32 {
    let requested = checked.workload.requested_replicas;
    let minimum = scaling.min_replicas.max(requested).unwrap_or(1).max(1);
    minimum.min(scaling.max_replicas)
}

fn metrics(scaling: &CheckedAutoscaling) -> Vec<MetricSpec> {
    let CheckedAutoscaling {
        cpu_percent,
        memory_percent,
        min_replicas: _,
        max_replicas: _,
    } = *scaling;
    let cpu_percent = match (cpu_percent, memory_percent) {
        (None, None) => Some(DEFAULT_CPU_PERCENT),
        (given, _) => given,
    };
    [("cpu", cpu_percent), ("memory", memory_percent)]
        .into_iter()
        .filter_map(|(name, percent)| {
            Some(MetricSpec {
                type_: "Resource".to_owned(),
                resource: Some(ResourceMetricSource {
                    name: name.to_owned(),
                    target: MetricTarget {
                        type_: "Utilization".to_owned(),
                        average_utilization: Some(percent?),
                        ..MetricTarget::default()
                    },
                }),
                ..MetricSpec::default()
            })
        })
        .collect()
}

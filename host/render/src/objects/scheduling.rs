//! How the pods are distributed over nodes and zones.

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use llsd_api::checked::Checked;
use llsd_api::labels;

use super::Owner;
use super::metadata::string_map;

const HOST_TOPOLOGY: &str = "kubernetes.io/hostname";
const TOPOLOGIES: [&str; 3] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    HOST_TOPOLOGY,
];

/// The resource's own constraints, or by default an even spread of several pods over regions, zones
/// and nodes.
pub(super) fn topology_spread(
    checked: &Checked,
    owner: &Owner,
) -> Option<Vec<TopologySpreadConstraint>> {
    let requested = &checked.workload.topology_spread_constraints;
    if !requested.is_empty() {
        return Some(requested.clone());
    }
    let spread_over = |topology: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(pod_selector(owner)),
        ..TopologySpreadConstraint::default()
    };
    (checked.workload.replicas() > 1).then(|| TOPOLOGIES.into_iter().map(spread_over).collect())
}

/// Prefers nodes that do not run a pod of the same resource, if there are several pods.
pub(super) fn affinity(checked: &Checked, owner: &Owner) -> Option<Affinity> {
    let term = || WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            topology_key: HOST_TOPOLOGY.to_owned(),
            label_selector: Some(pod_selector(owner)),
            ..PodAffinityTerm::default()
        },
    };
    (checked.workload.replicas() > 1).then(|| Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![term()]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    })
}

fn pod_selector(owner: &Owner) -> LabelSelector {
    LabelSelector {
        match_labels: Some(string_map([(labels::INSTANCE, owner.name.as_str())])),
        ..LabelSelector::default()
    }
}

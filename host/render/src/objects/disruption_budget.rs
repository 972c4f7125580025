//! The PodDisruptionBudget.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::{Checked, CheckedBudget};

use super::Owner;
use super::metadata::{metadata, selector};

pub(super) const SUFFIX: &str = "-pdb";

/// The resource's own budget, or by default `maxUnavailable: 1` for several pods. A single pod gets no
/// default, because the budget would block draining its node.
pub(super) fn disruption_budget(checked: &Checked, owner: &Owner) -> Option<PodDisruptionBudget> {
    let requested = checked.workload.disruption_budget.clone();
    let several = checked.workload.replicas() > 1;
    let budget = requested
        .or_else(|| several.then_some(CheckedBudget::MaxUnavailable(IntOrString::Int(1))))?;
    let (min_available, max_unavailable) = match budget {
        CheckedBudget::MinAvailable(amount) => (Some(amount), None),
        CheckedBudget::MaxUnavailable(amount) => (None, Some(amount)),
    };
    Some(PodDisruptionBudget {
        metadata: metadata(owner, SUFFIX),
        spec: Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(LabelSelector {
                match_labels: Some(selector(owner)),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

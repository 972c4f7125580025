//! How many pods may be away at once.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::{Checked, CheckedBudget};

use super::{Owner, metadata, selector};

pub(super) const SUFFIX: &str = "-pdb";

/// As asked, or one pod at a time where there are several. A single pod gets none of its own
/// accord: it would keep its node from being drained.
pub(super) fn budget(checked: &Checked, owner: &Owner) -> Option<PodDisruptionBudget> {
    let asked = checked.workload.disruption_budget.clone();
    let several = checked.workload.replicas() > 1;
    let budget =
        asked.or_else(|| several.then_some(CheckedBudget::MaxUnavailable(IntOrString::Int(1))))?;
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

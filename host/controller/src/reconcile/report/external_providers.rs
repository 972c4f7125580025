//! The status of external providers.

use llsd_api::checked::Checked;
use llsd_api::v1alpha2::{ExternalProviderPhase, ExternalProviderStatus};
use llsd_render::objects::init_container_name;

use super::rollout::Rollout;

/// The status of each external provider of the resource. `problems` are those of its pods.
pub(super) fn external_providers(
    checked: &Checked,
    rollout: Option<&Rollout>,
    problems: &[String],
) -> Vec<ExternalProviderStatus> {
    let status = |id: &str, image: &str| {
        let container = init_container_name(id);
        let quoted = format!("{container:?}");
        let problem = problems.iter().find(|problem| problem.contains(&quoted));
        let phase = match (rollout, problem) {
            (Some(rollout), _) if rollout.is_done => ExternalProviderPhase::Ready,
            (_, Some(_)) => ExternalProviderPhase::Failed,
            (Some(_), None) => ExternalProviderPhase::Installing,
            (None, None) => ExternalProviderPhase::Pending,
        };
        ExternalProviderStatus {
            provider_id: id.to_owned(),
            image: image.to_owned(),
            phase: Some(phase),
            message: problem
                .filter(|_| phase == ExternalProviderPhase::Failed)
                .cloned(),
            init_container: Some(container),
        }
    };
    let all = checked.external.iter();
    all.map(|provider| status(provider.id.as_str(), &provider.image))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failing_container_affects_only_its_own_provider() {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"},
            "spec": {
                "distribution": {"name": "starter"},
                "externalProviders": {"inference": [
                    {"providerId": "good", "image": "good:1"}, {"providerId": "bad", "image": "bad:1"},
                ]},
            },
        });
        let checked = llsd_api::check_document(document)
            .result
            .expect("a valid resource");
        let problem = "pod \"demo-1\": container \"install-provider-bad\": ErrImagePull".to_owned();
        let all = external_providers(&checked, None, std::slice::from_ref(&problem));
        let phases: Vec<_> = all.iter().map(|one| one.phase).collect();
        let expected = [
            ExternalProviderPhase::Pending,
            ExternalProviderPhase::Failed,
        ];
        assert_eq!(phases, expected.map(Some));
        assert_eq!(all[1].message, Some(problem));
    }
}

//! How each external provider stands.

use llsd_api::checked::Checked;
use llsd_api::v1alpha2::{ExternalProviderPhase, ExternalProviderStatus};
use llsd_render::objects::init_container;

use super::rollout::Rollout;

/// One entry for each provider of the resource. `problems` are those of its pods.
pub(super) fn external(
    checked: &Checked,
    rollout: Option<&Rollout>,
    problems: &[String],
) -> Vec<ExternalProviderStatus> {
    let status = |id: &str, image: &str| {
        let container = init_container(id);
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
    fn a_container_that_fails_is_told_of_its_own_provider_alone() {
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
        let checked = llsd_api::review(document).result.expect("a good resource");
        let problem = "pod \"demo-1\": container \"install-provider-bad\": ErrImagePull".to_owned();
        let all = external(&checked, None, std::slice::from_ref(&problem));
        let phases: Vec<_> = all.iter().map(|one| one.phase).collect();
        let expected = [
            ExternalProviderPhase::Pending,
            ExternalProviderPhase::Failed,
        ];
        assert_eq!(phases, expected.map(Some));
        assert_eq!(all[1].message, Some(problem));
    }
}

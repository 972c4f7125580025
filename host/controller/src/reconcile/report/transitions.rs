//! Selects the transitions between two statuses that are worth an event.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::DistributionStatus;

use crate::process::Transition;

/// The transitions from an old to a new status.
pub(super) fn transitions(old: &DistributionStatus, new: &DistributionStatus) -> Vec<Transition> {
    let steps = [
        condition::CONFIG_GENERATED,
        condition::SECRETS_RESOLVED,
        condition::DEPLOYMENT_UPDATED,
        condition::AVAILABLE,
        condition::PROVIDERS_HEALTHY,
        condition::RELEASE_MATCHES,
        condition::STORAGE_READY,
    ];
    let mut transitions: Vec<Transition> = steps
        .into_iter()
        .filter_map(|kind| {
            let (before, now) = (find(old, kind), find(new, kind)?);
            is_transition(before, now).then(|| Transition {
                is_warning: now.status != "True",
                reason: now.reason.clone(),
                note: now.message.clone(),
            })
        })
        .collect();
    let config_map = |status: &DistributionStatus| {
        let generated = status.config_generation.as_ref();
        generated.and_then(|one| one.config_map_name.clone())
    };
    // The first configuration is part of a normal start, and one event less for each new resource.
    if let (Some(before), Some(now)) = (config_map(old), config_map(new))
        && before != now
    {
        let reason = reason::CONFIG_GENERATION_SUCCEEDED;
        transitions.retain(|one| one.reason != reason);
        transitions.insert(
            0,
            Transition {
                is_warning: false,
                reason: reason.to_owned(),
                note: format!("generated ConfigMap {now:?}"),
            },
        );
    }
    transitions
}

fn is_transition(before: Option<&Condition>, now: &Condition) -> bool {
    let was = before.map(|one| one.status.as_str());
    match (now.status.as_str(), now.reason.as_str()) {
        // The first is a consequence of a failure with an event of its own, the others a normal start.
        (
            _,
            reason::DEPLOYMENT_UPDATE_SKIPPED
            | reason::ROLLOUT_IN_PROGRESS
            | reason::WAITING_FOR_IMAGE,
        ) => false,
        ("True", _) => {
            was == Some("False")
                && before.is_some_and(|one| one.reason != reason::DEPLOYMENT_UPDATE_SKIPPED)
        }
        // Before the first pod is available, this is a normal start.
        (_, reason::REPLICAS_UNAVAILABLE) => was == Some("True"),
        // A normal start, as above.
        (_, reason::STORAGE_FAILED) => false,
        // The message contains the number of pods, or a provider's own words, which change often.
        (_, reason::PODS_FAILING | reason::REPLICA_FAILURE | reason::PROVIDER_UNHEALTHY) => {
            before.is_none_or(|one| one.reason != now.reason)
        }
        (_, reason) => before.is_none_or(|one| one.reason != reason || one.message != now.message),
    }
}

fn find<'a>(status: &'a DistributionStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|one| one.type_ == kind)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use llsd_api::v1alpha2::ConfigGeneration;

    use super::super::conditions::Conditions;
    use super::*;

    fn status(conditions: &[(&str, bool, &str)], config_map: Option<&str>) -> DistributionStatus {
        let mut all = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        for (kind, is_true, reason) in conditions {
            all.set(kind, *is_true, reason, "message");
        }
        DistributionStatus {
            conditions: all.into_vec(),
            config_generation: config_map.map(|name| ConfigGeneration {
                config_map_name: Some(name.to_owned()),
                ..ConfigGeneration::default()
            }),
            ..DistributionStatus::default()
        }
    }

    fn published(old: &DistributionStatus, new: &DistributionStatus) -> Vec<(bool, String)> {
        transitions(old, new)
            .into_iter()
            .map(|one| (one.is_warning, one.reason))
            .collect()
    }

    #[test]
    fn a_changed_configuration_and_availability_are_events_but_not_a_normal_start() {
        let nothing = DistributionStatus::default();
        let steps = [
            ("ConfigGenerated", true, "ConfigGenerationSucceeded"),
            ("DeploymentUpdated", true, "DeploymentUpdateSucceeded"),
        ];
        let starting = [
            steps[0],
            steps[1],
            ("Available", false, "RolloutInProgress"),
        ];
        let started = status(&starting, Some("demo-config-1"));
        let ready = [
            steps[0],
            steps[1],
            ("Available", true, "MinimumReplicasAvailable"),
        ];
        let changed = status(&ready, Some("demo-config-2"));
        let ready = status(&ready, Some("demo-config-1"));
        assert!(published(&nothing, &started).is_empty());
        assert_eq!(
            published(&started, &ready),
            [(false, "MinimumReplicasAvailable".to_owned())]
        );
        assert!(published(&ready, &ready).is_empty());
        assert_eq!(
            published(&ready, &changed),
            [(false, "ConfigGenerationSucceeded".to_owned())]
        );
    }

    #[test]
    fn a_release_of_another_dialect_is_one_warning_and_its_fix_one_event() {
        let nothing = DistributionStatus::default();
        let mismatch = status(&[("ReleaseMatches", false, "ReleaseMismatch")], None);
        let matched = status(&[("ReleaseMatches", true, "ReleaseMatched")], None);
        assert!(published(&nothing, &matched).is_empty());
        assert_eq!(
            published(&matched, &mismatch),
            [(true, "ReleaseMismatch".to_owned())]
        );
        assert!(published(&mismatch, &mismatch).is_empty());
        assert_eq!(
            published(&mismatch, &matched),
            [(false, "ReleaseMatched".to_owned())]
        );
    }

    #[test]
    fn a_missing_secret_is_one_warning_and_finding_it_one_event() {
        let missing = [
            ("SecretsResolved", false, "SecretNotFound"),
            ("DeploymentUpdated", false, "DeploymentUpdateSkipped"),
        ];
        let found = [
            ("SecretsResolved", true, "AllSecretsFound"),
            ("DeploymentUpdated", true, "DeploymentUpdateSucceeded"),
        ];
        let (missing, found) = (status(&missing, None), status(&found, None));
        let nothing = DistributionStatus::default();
        assert_eq!(
            published(&nothing, &missing),
            [(true, "SecretNotFound".to_owned())]
        );
        assert!(published(&missing, &missing).is_empty());
        assert_eq!(
            published(&missing, &found),
            [(false, "AllSecretsFound".to_owned())]
        );
    }
}

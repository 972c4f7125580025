//! Events: what a resource went through, for `kubectl describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use llsd_api::conditions::{condition, reason};
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::v1alpha2::DistributionStatus;

/// Longest note that the API server takes.
const LONGEST_NOTE: usize = 1024;
const ACTION: &str = "Reconcile";

/// Something that became other than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// Where events go.
pub(crate) struct Events(Recorder);

impl Events {
    pub(crate) fn new(client: Client, instance: Option<String>) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: FIELD_MANAGER.to_owned(),
                instance,
            },
        ))
    }

    /// Publishes a warning about something that is no resource of ours.
    pub(crate) async fn warn(&self, reason: &str, note: &str, regarding: &ObjectReference) {
        let warning = Transition {
            is_warning: true,
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        self.tell(vec![warning], regarding).await;
    }

    /// Publishes transitions. An event that is lost is only said in the log: the status tells as well.
    pub(crate) async fn tell(&self, transitions: Vec<Transition>, regarding: &ObjectReference) {
        for Transition {
            is_warning,
            reason,
            mut note,
        } in transitions
        {
            note.truncate(note.floor_char_boundary(LONGEST_NOTE));
            let event = Event {
                type_: if is_warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason,
                note: Some(note),
                action: ACTION.to_owned(),
                secondary: None,
            };
            if let Err(error) = self.0.publish(&event, regarding).await {
                tracing::warn!(%error, reason = event.reason, "an event was not taken");
            }
        }
    }
}

/// What is worth telling about a new status.
pub(super) fn transitions(old: &DistributionStatus, new: &DistributionStatus) -> Vec<Transition> {
    let steps = [
        condition::CONFIG_GENERATED,
        condition::SECRETS_RESOLVED,
        condition::DEPLOYMENT_UPDATED,
        condition::AVAILABLE,
    ];
    let mut told: Vec<Transition> = steps
        .into_iter()
        .filter_map(|kind| {
            let (before, now) = (find(old, kind), find(new, kind)?);
            is_news(before, now).then(|| Transition {
                is_warning: now.status != "True",
                reason: now.reason.clone(),
                note: now.message.clone(),
            })
        })
        .collect();
    let file = |status: &DistributionStatus| {
        status
            .config_generation
            .as_ref()
            .and_then(|one| one.config_map_name.clone())
    };
    if let Some(name) = file(new).filter(|_| file(old) != file(new)) {
        let reason = reason::CONFIG_GENERATION_SUCCEEDED;
        told.retain(|one| one.reason != reason);
        told.insert(
            0,
            Transition {
                is_warning: false,
                reason: reason.to_owned(),
                note: format!("the configuration is in the ConfigMap {name:?}"),
            },
        );
    }
    told
}

fn is_news(before: Option<&Condition>, now: &Condition) -> bool {
    let was = before.map(|one| one.status.as_str());
    match (now.status.as_str(), now.reason.as_str()) {
        // A consequence of something else, which is told, and the way every start begins.
        (_, reason::DEPLOYMENT_UPDATE_SKIPPED | reason::ROLLOUT_IN_PROGRESS) => false,
        ("True", _) => {
            was == Some("False")
                && before.is_some_and(|one| one.reason != reason::DEPLOYMENT_UPDATE_SKIPPED)
        }
        // Before there was something there is nothing to lose.
        (_, reason::REPLICAS_UNAVAILABLE) => was == Some("True"),
        // The number of pods in the message is no news.
        (_, reason::PODS_FAILING) => before.is_none_or(|one| one.reason != now.reason),
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

    fn status(conditions: &[(&str, bool, &str)], file: Option<&str>) -> DistributionStatus {
        let mut all = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        for (kind, is_true, reason) in conditions {
            all.set(kind, *is_true, reason, "words");
        }
        DistributionStatus {
            conditions: all.into_vec(),
            config_generation: file.map(|name| ConfigGeneration {
                config_map_name: Some(name.to_owned()),
                ..ConfigGeneration::default()
            }),
            ..DistributionStatus::default()
        }
    }

    fn told(old: &DistributionStatus, new: &DistributionStatus) -> Vec<(bool, String)> {
        transitions(old, new)
            .into_iter()
            .map(|one| (one.is_warning, one.reason))
            .collect()
    }

    #[test]
    fn a_first_configuration_is_one_event_and_its_readiness_another() {
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
        let ready = status(&ready, Some("demo-config-1"));
        assert_eq!(
            told(&nothing, &started),
            [(false, "ConfigGenerationSucceeded".to_owned())]
        );
        assert_eq!(
            told(&started, &ready),
            [(false, "MinimumReplicasAvailable".to_owned())]
        );
        assert!(told(&ready, &ready).is_empty());
    }

    #[test]
    fn a_missing_secret_warns_once_and_its_return_is_told() {
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
            told(&nothing, &missing),
            [(true, "SecretNotFound".to_owned())]
        );
        assert!(told(&missing, &missing).is_empty());
        assert_eq!(
            told(&missing, &found),
            [(false, "AllSecretsFound".to_owned())]
        );
    }
}

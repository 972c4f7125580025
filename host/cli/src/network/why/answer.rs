//! The one line that answers "why is this not ready, and what do I do?".
//!
//! In: the conditions of a resource. Out: the answer. Pure, so that each case is a test.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llsd_api::conditions::{condition, reason};

/// What the state of a resource means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// It will be ready without an action.
    Waiting,
    /// Someone must act.
    Failed,
}

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) state: State,
    /// Why, on one line.
    pub(super) why: String,
    /// What to do; empty if there is nothing to do.
    pub(super) action: String,
}

/// Conditions that a ready server may still fail, the most important first.
const SECONDARY: [&str; 4] = [
    condition::RELEASE_MATCHES,
    condition::PROVIDERS_HEALTHY,
    condition::SERVER_ANSWERS,
    condition::HEALTH_CHECK,
];

/// Answers for a resource. `is_current` says whether the conditions are about its last change.
pub(super) fn answer(name: &str, conditions: &[Condition], is_current: bool) -> Answer {
    let find = |kind: &str| conditions.iter().find(|one| one.type_ == kind);
    let is_true = |one: &&Condition| one.status == "True";
    let of = |state: State, found: &Condition| Answer {
        state,
        why: first_line(found),
        action: action(name, found),
    };
    if conditions.is_empty() {
        return Answer {
            state: State::Waiting,
            why: "the operator has not looked at it yet".to_owned(),
            action: "if this lasts longer than a minute, check the operator with llsd doctor"
                .to_owned(),
        };
    }
    if let Some(paused) = find(condition::PAUSED).filter(is_true) {
        return Answer {
            state: State::Waiting,
            why: first_line(paused),
            action: "set spec.paused to false to let the operator work on it".to_owned(),
        };
    }
    if let Some(stalled) = find(condition::STALLED).filter(is_true) {
        return of(State::Failed, stalled);
    }
    if !is_current {
        return Answer {
            state: State::Waiting,
            why: "the last change is not reconciled yet".to_owned(),
            action: "if this lasts longer than a minute, check the operator with llsd doctor"
                .to_owned(),
        };
    }
    if let Some(reconciling) = find(condition::RECONCILING).filter(is_true) {
        return of(State::Waiting, reconciling);
    }
    match find(condition::READY) {
        Some(ready) if ready.status == "True" => {
            let failed = SECONDARY
                .iter()
                .find_map(|kind| find(kind).filter(|one| one.status == "False"));
            match failed {
                Some(failed) => Answer {
                    state: State::Failed,
                    why: format!("its pods are available, but {}", first_line(failed)),
                    action: action(name, failed),
                },
                None => Answer {
                    state: State::Ready,
                    why: first_line(ready),
                    action: String::new(),
                },
            }
        }
        Some(ready) => of(State::Waiting, ready),
        None => Answer {
            state: State::Waiting,
            why: "the operator has not summarised it yet".to_owned(),
            action: "wait a moment, and ask again".to_owned(),
        },
    }
}

/// The first line of a message, or the reason.
fn first_line(found: &Condition) -> String {
    let line = found.message.lines().find(|line| !line.trim().is_empty());
    line.map_or_else(|| found.reason.clone(), |line| line.trim().to_owned())
}

/// What to do about a condition. A message of ours ends with what to do; others come from the cluster.
fn action(name: &str, found: &Condition) -> String {
    match found.reason.as_str() {
        reason::REPLICA_FAILURE => "raise the quota of the namespace, or ask for less in spec.workload.resources".to_owned(),
        reason::PODS_FAILING | reason::PROGRESS_DEADLINE_EXCEEDED => format!("read the server's log: kubectl logs deployment/{name} --all-containers --tail 50"),
        reason::ROLLOUT_IN_PROGRESS | reason::RETRYING => "wait; the operator continues by itself".to_owned(),
        reason::WAITING_FOR_IMAGE => "wait; if it stays, check that the registry is reachable and that spec.workload.overrides.imagePullSecrets names the credentials".to_owned(),
        reason::OTHER_OPERATOR_RUNNING => "stop the other operator, which created the objects".to_owned(),
        reason::PROVIDER_UNHEALTHY => "check the endpoint and the credentials of the provider that the message names".to_owned(),
        reason::SERVER_SILENT | reason::HEALTH_CHECK_FAILED => format!("read the server's log: kubectl logs deployment/{name} --tail 50"),
        reason::STORAGE_FAILED => format!("see why the claim is not bound: kubectl describe pvc {name}-pvc"),
        _ => match found.message.lines().next().and_then(|line| line.rsplit_once("; ")) {
            Some((_, fix)) => fix.to_owned(),
            None => "change what the message names; the operator tries again at once".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition_of(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                Default::default(),
            ),
            observed_generation: None,
        }
    }

    #[test]
    fn a_missing_secret_is_named_with_its_fix() {
        let message = "spec.providers.inference.apiKey: namespace \"ml\" has no Secret \"a\"; create it\nsecond line";
        let conditions = [
            condition_of("Ready", "False", "SecretNotFound", message),
            condition_of("Stalled", "True", "SecretNotFound", message),
        ];
        let found = answer("chat", &conditions, true);
        assert_eq!(found.state, State::Failed);
        assert_eq!(found.why, message.lines().next().unwrap());
        assert_eq!(found.action, "create it");
    }

    #[test]
    fn failing_pods_point_to_the_log() {
        let conditions = [condition_of(
            "Reconciling",
            "True",
            "PodsFailing",
            "0 of 1 pods are available",
        )];
        let found = answer("chat", &conditions, true);
        assert_eq!(found.state, State::Waiting);
        assert_eq!(
            found.action,
            "read the server's log: kubectl logs deployment/chat --all-containers --tail 50"
        );
    }

    #[test]
    fn a_ready_server_with_a_broken_provider_is_not_called_ready() {
        let ready = condition_of("Ready", "True", "Ready", "1 of 1 pods are available");
        assert_eq!(
            answer("a", std::slice::from_ref(&ready), true).state,
            State::Ready
        );
        let broken = condition_of(
            "ProvidersHealthy",
            "False",
            "ProviderUnhealthy",
            "vllm: connection refused",
        );
        let found = answer("a", &[ready, broken], true);
        assert_eq!(
            found.why,
            "its pods are available, but vllm: connection refused"
        );
        assert_eq!(found.state, State::Failed);
    }

    #[test]
    fn a_resource_that_nobody_looked_at_points_to_the_operator() {
        assert!(answer("a", &[], true).action.contains("llsd doctor"));
        let ready = condition_of("Ready", "True", "Ready", "1 of 1 pods are available");
        assert_eq!(
            answer("a", &[ready], false).why,
            "the last change is not reconciled yet"
        );
    }

    #[test]
    fn a_paused_resource_says_how_to_continue() {
        let paused = condition_of("Paused", "True", "Paused", "spec.paused is true");
        assert!(
            answer("a", &[paused], true)
                .action
                .contains("spec.paused to false")
        );
    }
}

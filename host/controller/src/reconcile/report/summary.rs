//! The summary of a status: `Ready`, `Reconciling`, `Stalled` and the phase.
//!
//! The three conditions follow the conventions of kstatus: `Ready` is always present, and is `True`
//! only if the current generation is applied and its pods are available. `Reconciling` and `Stalled`
//! are present only while they are `True`, and never together.

use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::Phase;

use super::conditions::Conditions;
use super::rollout::Rollout;
use crate::reconcile::error::Error;

/// What the state of a resource means for someone who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Summary {
    /// The current generation is applied, and its pods are available.
    Ready { message: String },
    /// The operator or the cluster is still working on it.
    Reconciling {
        reason: &'static str,
        message: String,
    },
    /// Its author paused it.
    Paused { message: String },
    /// It waits for someone to act.
    Stalled {
        reason: &'static str,
        message: String,
    },
}

impl Summary {
    /// The summary of a reconciliation that ended with `error`, or of the rollout that it started.
    pub(super) fn of(
        error: Option<&Error>,
        rollout: Option<&Rollout>,
        problems: &[String],
    ) -> Self {
        if let Some(error) = error {
            let message = error.details();
            if matches!(error, Error::Paused) {
                return Self::Paused { message };
            }
            return if error.needs_user_action() {
                let reason = error.reason();
                Self::Stalled { reason, message }
            } else {
                let reason = reason::RETRYING;
                Self::Reconciling { reason, message }
            };
        }
        let Some(rollout) = rollout else {
            return Self::Reconciling {
                reason: reason::ROLLOUT_IN_PROGRESS,
                message: "the Deployment does not exist yet".to_owned(),
            };
        };
        if rollout.is_done {
            let message = rollout.count();
            return Self::Ready { message };
        }
        if let Some(failure) = rollout.failure() {
            let reason = if rollout.replica_failure.is_some() {
                reason::REPLICA_FAILURE
            } else {
                reason::PROGRESS_DEADLINE_EXCEEDED
            };
            let message = lines(failure, problems);
            return Self::Stalled { reason, message };
        }
        let reason = if problems.is_empty() {
            reason::ROLLOUT_IN_PROGRESS
        } else {
            reason::PODS_FAILING
        };
        let message = lines(&rollout.count(), problems);
        Self::Reconciling { reason, message }
    }

    /// Sets the three conditions.
    pub(super) fn report(&self, conditions: &mut Conditions) {
        let (present, absent, reason, message) = match self {
            Self::Ready { message } => {
                conditions.set(condition::READY, true, reason::READY, message);
                conditions.remove(condition::RECONCILING);
                conditions.remove(condition::STALLED);
                return;
            }
            // Nobody works on it, and nobody must act.
            Self::Paused { message } => {
                conditions.set(condition::READY, false, reason::PAUSED, message);
                conditions.remove(condition::RECONCILING);
                conditions.remove(condition::STALLED);
                return;
            }
            Self::Reconciling { reason, message } => {
                (condition::RECONCILING, condition::STALLED, reason, message)
            }
            Self::Stalled { reason, message } => {
                (condition::STALLED, condition::RECONCILING, reason, message)
            }
        };
        conditions.set(condition::READY, false, reason, message);
        conditions.set(present, true, reason, message);
        conditions.remove(absent);
    }

    /// The phase, which has one word for everything that is in progress after the first write.
    pub(super) fn phase(&self, rollout: Option<&Rollout>) -> Phase {
        match (self, rollout) {
            (Self::Ready { .. }, _) => Phase::Ready,
            (Self::Stalled { .. }, _) => Phase::Failed,
            (Self::Paused { .. }, Some(rollout)) if rollout.is_done => Phase::Ready,
            (Self::Reconciling { .. } | Self::Paused { .. }, None) => Phase::Pending,
            (Self::Reconciling { .. } | Self::Paused { .. }, Some(_)) => Phase::Initializing,
        }
    }
}

fn lines(first: &str, others: &[String]) -> String {
    let all = [first].into_iter().chain(others.iter().map(String::as_str));
    all.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube::core::Status;
    use llsd_render::objects::Kind;
    use serde_json::{Value, json};

    use super::*;
    use crate::reconcile::apply;

    fn rollout(status: Value) -> Rollout {
        let deployment = json!({"metadata": {"generation": 2}, "spec": {}, "status": status});
        Rollout::of(&serde_json::from_value(deployment).expect("a Deployment"))
    }

    fn done() -> Rollout {
        rollout(
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
        )
    }

    fn rejected_write(code: u16, reason: &str) -> Error {
        let status = Status {
            code,
            reason: reason.to_owned(),
            ..Status::failure("from the API server", reason)
        };
        Error::Apply(apply::Error::Api {
            verb: "apply",
            kind: Kind::Deployment,
            name: "demo".to_owned(),
            error: Box::new(kube::Error::Api(status.boxed())),
        })
    }

    fn types(summary: &Summary) -> Vec<(String, String)> {
        let mut conditions = Conditions::new(&[], Some(2), Timestamp::UNIX_EPOCH);
        summary.report(&mut conditions);
        let all = conditions.into_vec().into_iter();
        all.map(|one| (one.type_, one.status)).collect()
    }

    fn named(types: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(one, other): &(&str, &str)| ((*one).to_owned(), (*other).to_owned());
        types.iter().map(owned).collect()
    }

    #[test]
    fn a_write_that_fails_for_a_while_is_not_ready_although_the_old_pods_run() {
        let error = rejected_write(500, "InternalError");
        let summary = Summary::of(Some(&error), Some(&done()), &[]);
        let expected = named(&[("Ready", "False"), ("Reconciling", "True")]);
        assert_eq!(types(&summary), expected);
        assert_eq!(summary.phase(Some(&done())), Phase::Initializing);
        assert!(
            matches!(summary, Summary::Reconciling { reason: "Retrying", message } if message.contains("from the API server"))
        );
    }

    #[test]
    fn an_object_that_the_api_server_rejects_is_stalled() {
        let error = rejected_write(422, "Invalid");
        let summary = Summary::of(Some(&error), Some(&done()), &[]);
        let expected = named(&[("Ready", "False"), ("Stalled", "True")]);
        assert_eq!(types(&summary), expected);
        assert_eq!(summary.phase(Some(&done())), Phase::Failed);
    }

    #[test]
    fn a_paused_resource_is_neither_stalled_nor_reconciling_and_keeps_the_phase_of_its_pods() {
        let summary = Summary::of(Some(&Error::Paused), Some(&done()), &[]);
        assert_eq!(types(&summary), named(&[("Ready", "False")]));
        assert_eq!(summary.phase(Some(&done())), Phase::Ready);
        assert_eq!(summary.phase(None), Phase::Pending);
        assert!(Error::Paused.waits_for_change());
    }

    #[test]
    fn pods_that_the_api_server_rejects_are_reported_before_the_progress_deadline() {
        let rollout = rollout(json!({"observedGeneration": 2, "conditions": [
            {"type": "Progressing", "status": "True"},
            {"type": "ReplicaFailure", "status": "True", "message": "pods \"demo-1\" is forbidden: exceeded quota: one"},
        ]}));
        let summary = Summary::of(None, Some(&rollout), &[]);
        let expected = Summary::Stalled {
            reason: "ReplicaFailure",
            message: "pods \"demo-1\" is forbidden: exceeded quota: one".to_owned(),
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn reconciling_and_stalled_are_absent_once_a_resource_is_ready() {
        let mut conditions = Conditions::new(&[], Some(2), Timestamp::UNIX_EPOCH);
        let error = rejected_write(500, "InternalError");
        Summary::of(Some(&error), None, &[]).report(&mut conditions);
        Summary::of(None, Some(&done()), &[]).report(&mut conditions);
        let all = conditions.into_vec();
        assert_eq!((all.len(), all[0].type_.as_str()), (1, "Ready"));
        assert_eq!(all[0].status, "True");
    }
}

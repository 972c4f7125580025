//! The conditions about what runs: ours, and those that the first operator reported, in its words.

use llsd_api::conditions::{condition, reason};

use super::Seen;
use super::conditions::Conditions;
use super::rollout::Rollout;

/// Sets every condition about what runs.
pub(super) fn report(conditions: &mut Conditions, seen: &Seen) {
    let rollout = seen.rollout.as_ref();
    available(conditions, rollout, &seen.problems);
    deployment_ready(conditions, rollout, &seen.problems);
    health_check(conditions, rollout);
    storage_ready(conditions, seen);
    service_ready(conditions, seen);
}

fn available(conditions: &mut Conditions, rollout: Option<&Rollout>, problems: &[String]) {
    let Some(rollout) = rollout else {
        conditions.set(
            condition::AVAILABLE,
            false,
            reason::REPLICAS_UNAVAILABLE,
            "there is no Deployment",
        );
        return;
    };
    let reason = match (rollout.is_serving, rollout.is_done) {
        (true, _) => reason::MINIMUM_REPLICAS_AVAILABLE,
        (false, _) if !problems.is_empty() || rollout.stuck.is_some() => reason::PODS_FAILING,
        (false, true) => reason::REPLICAS_UNAVAILABLE,
        (false, false) => reason::ROLLOUT_IN_PROGRESS,
    };
    let message = with_problems(rollout.count(), rollout, problems);
    conditions.set(condition::AVAILABLE, rollout.is_serving, reason, message);
}

fn deployment_ready(conditions: &mut Conditions, rollout: Option<&Rollout>, problems: &[String]) {
    let (is_true, message) = match rollout {
        Some(rollout) if rollout.is_done => (true, "Deployment is ready".to_owned()),
        Some(rollout) => {
            let Rollout { ready, wanted, .. } = rollout;
            let scaling = format!("Deployment is scaling: {ready}/{wanted} replicas ready");
            (false, with_problems(scaling, rollout, problems))
        }
        None => (false, "Deployment is pending".to_owned()),
    };
    let reason = if is_true {
        reason::DEPLOYMENT_READY
    } else {
        reason::DEPLOYMENT_FAILED
    };
    conditions.set(condition::DEPLOYMENT_READY, is_true, reason, message);
}

/// A pod is ready once its server has answered for its health.
fn health_check(conditions: &mut Conditions, rollout: Option<&Rollout>) {
    let is_true = rollout.is_some_and(|rollout| rollout.is_serving && rollout.ready > 0);
    let (reason, message) = if is_true {
        (reason::HEALTH_CHECK_PASSED, "Health check passed")
    } else {
        (reason::HEALTH_CHECK_FAILED, "Deployment not ready")
    };
    conditions.set(condition::HEALTH_CHECK, is_true, reason, message);
}

fn storage_ready(conditions: &mut Conditions, seen: &Seen) {
    let Some(claim) = &seen.claim else {
        conditions.remove(condition::STORAGE_READY);
        return;
    };
    let phase = claim.data["status"]["phase"].as_str().unwrap_or("Pending");
    let is_bound = phase == "Bound";
    let (reason, message) = if is_bound {
        (reason::STORAGE_READY, "Storage is ready".to_owned())
    } else {
        (reason::STORAGE_FAILED, format!("PVC is not bound: {phase}"))
    };
    conditions.set(condition::STORAGE_READY, is_bound, reason, message);
}

fn service_ready(conditions: &mut Conditions, seen: &Seen) {
    let (reason, message) = if seen.has_service {
        (reason::SERVICE_READY, "Service is ready")
    } else {
        (reason::SERVICE_FAILED, "there is no Service")
    };
    conditions.set(condition::SERVICE_READY, seen.has_service, reason, message);
}

/// Pods that fail are of interest until the rollout is over.
fn with_problems(message: String, rollout: &Rollout, problems: &[String]) -> String {
    if rollout.is_done {
        return message;
    }
    let all = [message].into_iter();
    let all = all
        .chain(rollout.stuck.clone())
        .chain(problems.iter().cloned());
    all.collect::<Vec<_>>().join("\n")
}

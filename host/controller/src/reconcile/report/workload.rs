//! The conditions of the running objects: our own, and those of llama-stack-k8s-operator, with its
//! messages.

use llsd_api::conditions::{condition, reason};

use super::conditions::Conditions;
use super::observed::Observed;
use super::rollout::Rollout;
use crate::servers::LastPoll;

/// Sets every condition of the running objects.
pub(super) fn report(conditions: &mut Conditions, observed: &Observed, server: Option<&LastPoll>) {
    let rollout = observed.rollout.as_ref();
    available(conditions, rollout, observed);
    deployment_ready(conditions, rollout, observed);
    health_check(conditions, rollout, server);
    storage_ready(conditions, observed);
    service_ready(conditions, observed);
}

fn available(conditions: &mut Conditions, rollout: Option<&Rollout>, observed: &Observed) {
    let Some(rollout) = rollout else {
        conditions.set(
            condition::AVAILABLE,
            false,
            reason::REPLICAS_UNAVAILABLE,
            "the Deployment does not exist",
        );
        return;
    };
    let reason = match (rollout.is_available, rollout.is_done) {
        (true, _) => reason::MINIMUM_REPLICAS_AVAILABLE,
        (false, _) if rollout.replica_failure.is_some() => reason::REPLICA_FAILURE,
        (false, _) if !observed.problems.is_empty() || rollout.stuck.is_some() => {
            reason::PODS_FAILING
        }
        (false, true) => reason::REPLICAS_UNAVAILABLE,
        (false, false) => reason::ROLLOUT_IN_PROGRESS,
    };
    let message = with_problems(rollout.count(), rollout, observed);
    conditions.set(condition::AVAILABLE, rollout.is_available, reason, message);
}

fn deployment_ready(conditions: &mut Conditions, rollout: Option<&Rollout>, observed: &Observed) {
    let (is_true, message) = match rollout {
        Some(rollout) if rollout.is_done => (true, "Deployment is ready".to_owned()),
        Some(rollout) => {
            let Rollout { ready, desired, .. } = rollout;
            let scaling = format!("Deployment is scaling: {ready}/{desired} replicas ready");
            (false, with_problems(scaling, rollout, observed))
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

/// Whether the server answers now. A pod with a readiness probe is ready only while its server answers
/// the kubelet. For a pod without one, the last query of the operator decides.
fn health_check(conditions: &mut Conditions, rollout: Option<&Rollout>, server: Option<&LastPoll>) {
    let is_ready = rollout.is_some_and(|rollout| rollout.is_available && rollout.ready > 0);
    let is_probed = rollout.is_some_and(|rollout| rollout.has_readiness_probe);
    let silence = server
        .filter(|_| !is_probed)
        .and_then(|last| last.result.as_ref().err());
    let (is_true, message) = match (is_ready, silence) {
        (true, None) => (true, "Health check passed".to_owned()),
        (true, Some(error)) => (false, format!("the server does not answer: {error}")),
        (false, _) => (false, "Deployment not ready".to_owned()),
    };
    let reason = if is_true {
        reason::HEALTH_CHECK_PASSED
    } else {
        reason::HEALTH_CHECK_FAILED
    };
    conditions.set(condition::HEALTH_CHECK, is_true, reason, message);
}

fn storage_ready(conditions: &mut Conditions, observed: &Observed) {
    let Some(claim) = &observed.claim else {
        conditions.remove(condition::STORAGE_READY);
        return;
    };
    let phase = claim.data["status"]["phase"].as_str().unwrap_or("Pending");
    let is_bound = phase == "Bound";
    let (reason, mut message) = if is_bound {
        (reason::STORAGE_READY, "Storage is ready".to_owned())
    } else {
        (reason::STORAGE_FAILED, format!("PVC is not bound: {phase}"))
    };
    let pods = observed.rollout.as_ref().map_or(0, |one| one.desired);
    if pods > 1 {
        message.push_str(&format!(
            "\nwarning: {pods} pods share one ReadWriteOnce volume, which only one node can attach at a time"
        ));
    }
    conditions.set(condition::STORAGE_READY, is_bound, reason, message);
}

/// Reports a claim whose size differs from that of the resource. Runs after the other conditions.
pub(super) fn report_claim_size(
    conditions: &mut Conditions,
    observed: &Observed,
    problem: Option<&str>,
) {
    if let (Some(_), Some(problem)) = (&observed.claim, problem) {
        let reason = reason::STORAGE_RESIZE_FAILED;
        conditions.set(condition::STORAGE_READY, false, reason, problem);
    }
}

fn service_ready(conditions: &mut Conditions, observed: &Observed) {
    let (reason, message) = if observed.has_service {
        (reason::SERVICE_READY, "Service is ready")
    } else {
        (reason::SERVICE_FAILED, "the Service does not exist")
    };
    conditions.set(
        condition::SERVICE_READY,
        observed.has_service,
        reason,
        message,
    );
}

/// Adds the problems and failing probes of pods to a message, until the rollout is done.
fn with_problems(message: String, rollout: &Rollout, observed: &Observed) -> String {
    if rollout.is_done {
        return message;
    }
    let all = [message].into_iter();
    let all = all
        .chain(rollout.replica_failure.clone())
        .chain(rollout.stuck.clone())
        .chain(observed.problems.iter().cloned())
        .chain(observed.failing_probes.iter().cloned());
    all.collect::<Vec<_>>().join("\n")
}

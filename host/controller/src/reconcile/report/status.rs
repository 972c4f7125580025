//! Computes the status of a resource from the result of its reconciliation.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::checked::ServerSource;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{DistributionConfig, DistributionStatus};
use llsd_render::objects::{
    Owner, RouteAcceptance, exposed_url, pod_selector, route_acceptance, service_url,
};

use super::conditions::Conditions;
use super::config_status::{config_generation, resolved_distribution};
use super::external_providers::external_providers;
use super::observed::Observed;
use super::release::ServerDialect;
use super::summary::Summary;
use super::{Applied, release, server, step_conditions, workload};
use crate::reconcile::error::Error;
use crate::servers::LastPoll;

/// The version of the operator in the status.
const OPERATOR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a status is computed from.
pub(super) struct StatusInputs<'a> {
    pub(super) old: &'a DistributionStatus,
    pub(super) generation: Option<i64>,
    pub(super) owner: &'a Owner,
    pub(super) outcome: &'a Result<Applied, Error>,
    pub(super) observed: &'a Observed,
    /// The result of the last poll of the server.
    pub(super) server: Option<&'a LastPoll>,
    /// The dialect that the server reads.
    pub(super) dialect: ServerDialect<'a>,
    pub(super) now: Timestamp,
}

/// The new status.
pub(super) fn status(inputs: &StatusInputs<'_>) -> DistributionStatus {
    let &StatusInputs {
        old,
        generation,
        owner,
        outcome,
        observed,
        server,
        dialect,
        now,
    } = inputs;
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    let mut status = DistributionStatus {
        observed_generation: generation,
        ..old.clone()
    };
    match outcome {
        Ok(applied) => {
            let missing = observed.missing_exposure_secret.as_deref();
            step_conditions::succeeded(&mut conditions, applied, missing);
            describe(&mut status, applied, owner, now);
            let exposure = applied.written.exposure.as_ref();
            let route = exposure.and_then(|live| route_acceptance(&live.data));
            route_accepted(&mut conditions, route.as_ref());
        }
        Err(error) => step_conditions::failed(&mut conditions, error),
    }
    match outcome {
        Err(error @ Error::Paused) => {
            conditions.set(condition::PAUSED, true, error.reason(), error.details());
        }
        _ => conditions.remove(condition::PAUSED),
    }
    let rollout = observed.rollout.as_ref();
    workload::report(&mut conditions, observed, server);
    if let Ok(applied) = outcome {
        let problem = applied.written.claim_problem.as_deref();
        workload::report_claim_size(&mut conditions, observed, problem);
        status.external_providers =
            external_providers(&applied.checked, rollout, &observed.problems);
    }
    let has_ready_pods = rollout.is_some_and(|rollout| rollout.ready > 0);
    match server {
        Some(last) => server::report(&mut conditions, &mut status, last, now),
        None if !has_ready_pods => server::forget(&mut conditions),
        None => {}
    }
    if let Ok(applied) = outcome {
        let versions = status.version.as_ref();
        let release = versions.and_then(|one| one.llama_stack_server_version.as_deref());
        release::report(&mut conditions, &applied.plan, release, dialect);
        let entry_point = applied.gathered.server.entry_point;
        let schema_of = dialect.schema_of;
        release::report_override(
            &mut conditions,
            &applied.plan,
            entry_point,
            release,
            schema_of,
        );
    }
    status.available_replicas = rollout.map(|rollout| rollout.ready);
    status.replicas = rollout.map(|rollout| rollout.replicas);
    status.selector = rollout.map(|_| pod_selector(owner));
    let summary = Summary::of(outcome.as_ref().err(), rollout, &observed.problems);
    summary.report(&mut conditions);
    status.phase = Some(summary.phase(rollout));
    status.conditions = conditions.into_vec();
    // A new version of the operator alone does not rewrite any status, and neither does a change of the
    // operator's settings.
    if status != *old {
        set_operator_version(&mut status, now);
        if let Ok(applied) = outcome {
            let config = status.distribution_config.get_or_insert_default();
            config
                .available_distributions
                .clone_from(&applied.distributions);
        }
    }
    status
}

/// Copies the result of a successful apply step to the status.
fn describe(status: &mut DistributionStatus, applied: &Applied, owner: &Owner, now: Timestamp) {
    let old = status.config_generation.take();
    status.config_generation = config_generation(applied, owner, old.as_ref(), now);
    let resolved = resolved_distribution(applied);
    let before = status.resolved_distribution.take();
    server::forget_version(status, before.as_ref(), &resolved);
    status.resolved_distribution = Some(resolved);
    status.service_url = Some(service_url(&applied.checked, owner));
    // Empty while the Ingress or route has no address yet.
    let exposure = applied.written.exposure.as_ref();
    status.route_url = exposure.map(|live| exposed_url(&live.data).unwrap_or_default());
    let config = status.distribution_config.get_or_insert_default();
    *config = DistributionConfig {
        active_distribution: Some(distribution_name(&applied.checked.server)),
        ..config.clone()
    };
}

/// Reports whether Gateways accept the route to the server, and at which addresses.
fn route_accepted(conditions: &mut Conditions, route: Option<&RouteAcceptance>) {
    let Some(route) = route else {
        return conditions.remove(condition::ROUTE_ACCEPTED);
    };
    let is_accepted = route.is_accepted && route.problems.is_empty();
    let (reason, message) = match (is_accepted, route.problems.is_empty()) {
        (true, _) if route.urls.is_empty() => {
            let message = "the listeners of the Gateway have the host names";
            (reason::ROUTE_ACCEPTED, message.to_owned())
        }
        (true, _) => (reason::ROUTE_ACCEPTED, route.urls.join(" ")),
        (false, false) => (reason::ROUTE_REJECTED, route.problems.join("\n")),
        (false, true) => {
            let message = "no Gateway has accepted the route yet";
            (reason::ROUTE_PENDING, message.to_owned())
        }
    };
    conditions.set(condition::ROUTE_ACCEPTED, is_accepted, reason, message);
}

fn set_operator_version(status: &mut DistributionStatus, now: Timestamp) {
    let versions = status.version.get_or_insert_default();
    if versions.operator_version.as_deref() != Some(OPERATOR_VERSION) {
        versions.operator_version = Some(OPERATOR_VERSION.to_owned());
        versions.last_updated = Some(Time(now));
    }
}

fn distribution_name(server: &ServerSource) -> String {
    match server {
        ServerSource::Named(name) => name.clone(),
        ServerSource::Image(_) => "custom".to_owned(),
    }
}

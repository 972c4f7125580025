//! The status of a resource, as a function of how its reconciliation went.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_adapter_sdk::documents::ModelId;
use llsd_api::checked::ServerSource;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{
    ConfigGeneration, ConfigSourceKind, DistributionConfig, DistributionStatus, Phase,
    PluginIdentity, ResolvedDistribution, ServedModel,
};
use llsd_render::objects::{ConfigPlan, Owner, config_map_name, exposed_at, service_url};
use llsd_render::{Generated, Reason, Refusal, Undecided, digest};

use super::conditions::Conditions;
use super::external::external;
use super::{Applied, Seen, running, server};
use crate::gather::Source;
use crate::polling::Heard;
use crate::reconcile::Error;
use crate::{expand, gather};

/// What the status names the operator by.
const OPERATOR_VERSION: &str = env!("CARGO_PKG_VERSION");
/// More than the status takes.
const MOST_MODELS: usize = 1024;

/// What a status is made from.
pub(super) struct Facts<'a> {
    pub(super) old: &'a DistributionStatus,
    pub(super) generation: Option<i64>,
    pub(super) owner: &'a Owner,
    pub(super) outcome: &'a Result<Applied, Error>,
    pub(super) seen: &'a Seen,
    /// What was last heard of the server.
    pub(super) heard: Option<&'a Heard>,
    pub(super) now: Timestamp,
}

/// What the resource says from now on.
pub(super) fn status(facts: &Facts<'_>) -> DistributionStatus {
    let &Facts {
        old,
        generation,
        owner,
        outcome,
        seen,
        heard,
        now,
    } = facts;
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    let mut status = DistributionStatus {
        observed_generation: generation,
        ..old.clone()
    };
    match outcome {
        Ok(applied) => {
            succeed(&mut conditions, applied);
            status.config_generation =
                config_generation(applied, owner, old.config_generation.as_ref(), now);
            status.resolved_distribution = Some(resolved(applied));
            status.service_url = Some(service_url(&applied.checked, owner));
            // Empty: exposed, but without an address yet.
            let exposure = applied.written.exposure.as_ref();
            status.route_url = exposure.map(|live| exposed_at(&live.data).unwrap_or_default());
            let config = status.distribution_config.get_or_insert_default();
            *config = DistributionConfig {
                active_distribution: Some(active(&applied.checked.server)),
                ..config.clone()
            };
        }
        Err(error) => fail(&mut conditions, error),
    }
    let rollout = seen.rollout.as_ref();
    running::report(&mut conditions, seen);
    if let Ok(applied) = outcome {
        status.external_providers = external(&applied.checked, rollout, &seen.problems);
    }
    let is_silent = rollout.is_none_or(|rollout| rollout.ready == 0);
    match heard {
        Some(heard) => server::report(&mut conditions, &mut status, heard, now),
        // There is nobody to ask.
        None if is_silent => conditions.remove(condition::SERVER_ANSWERS),
        None => {}
    }
    status.available_replicas = rollout.map(|rollout| rollout.ready);
    status.phase = Some(match (outcome, rollout) {
        (Err(error), _) if error.needs_help() => Phase::Failed,
        (_, None) => Phase::Pending,
        (_, Some(rollout)) if rollout.is_done => Phase::Ready,
        (_, Some(rollout)) if rollout.stuck.is_some() => Phase::Failed,
        (_, Some(_)) => Phase::Initializing,
    });
    status.conditions = conditions.into_vec();
    // The version alone is no news: a new operator rewrites nothing.
    if status != *old {
        sign(&mut status, now);
    }
    status
}

/// Names the operator that speaks, which may not be the one that spoke before.
fn sign(status: &mut DistributionStatus, now: Timestamp) {
    let versions = status.version.get_or_insert_default();
    if versions.operator_version.as_deref() != Some(OPERATOR_VERSION) {
        versions.operator_version = Some(OPERATOR_VERSION.to_owned());
        versions.last_updated = Some(Time(now));
    }
}

fn succeed(conditions: &mut Conditions, applied: &Applied) {
    let mut message = match &applied.plan {
        ConfigPlan::Generated(generated) => {
            format!(
                "generated {} providers and {} resources",
                generated.counts.providers,
                resource_count(generated)
            )
        }
        ConfigPlan::Override { config_map, .. } => {
            format!("nothing is generated: the ConfigMap {config_map:?} is used as it is")
        }
        ConfigPlan::DistributionDefault => {
            "nothing is generated: the distribution's own configuration is used".to_owned()
        }
    };
    for warning in warnings(applied) {
        message.push_str(&format!("\nwarning: {warning}"));
    }
    conditions.set(
        condition::CONFIG_GENERATED,
        true,
        reason::CONFIG_GENERATION_SUCCEEDED,
        message,
    );
    conditions.set(
        condition::SECRETS_RESOLVED,
        true,
        reason::ALL_SECRETS_FOUND,
        "every reference leads to a key",
    );
    let mut message = "the Deployment holds what the spec asks for".to_owned();
    for shortfall in &applied.written.shortfalls {
        message.push_str(&format!("\n{shortfall}"));
    }
    conditions.set(
        condition::DEPLOYMENT_UPDATED,
        true,
        reason::DEPLOYMENT_UPDATE_SUCCEEDED,
        message,
    );
}

/// What somebody should look at although everything went well.
fn warnings(applied: &Applied) -> Vec<String> {
    let of_plugin = match &applied.plan {
        ConfigPlan::Generated(generated) => generated.warnings.as_slice(),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => &[],
    };
    let notices = applied.checked.notices.iter().map(ToString::to_string);
    let of_plugin = of_plugin.iter().map(ToString::to_string);
    let of_operator = applied.gathered.warnings.iter().cloned();
    notices.chain(of_plugin).chain(of_operator).collect()
}

fn fail(conditions: &mut Conditions, error: &Error) {
    match error {
        Error::Secrets(error) => {
            conditions.set(
                condition::CONFIG_GENERATED,
                true,
                reason::CONFIG_GENERATION_SUCCEEDED,
                "generated",
            );
            conditions.set(
                condition::SECRETS_RESOLVED,
                false,
                error.reason(),
                error.to_string(),
            );
            skipped(conditions, "every secret is found");
        }
        Error::Apply(error) => {
            conditions.set(
                condition::CONFIG_GENERATED,
                true,
                reason::CONFIG_GENERATION_SUCCEEDED,
                "generated",
            );
            conditions.set(
                condition::SECRETS_RESOLVED,
                true,
                reason::ALL_SECRETS_FOUND,
                "every reference leads to a key",
            );
            conditions.set(
                condition::DEPLOYMENT_UPDATED,
                false,
                reason::DEPLOYMENT_UPDATE_FAILED,
                error.to_string(),
            );
        }
        Error::Refused(rejections) => {
            conditions.set(
                condition::CONFIG_GENERATED,
                false,
                reason::CONFIG_GENERATION_FAILED,
                rejections.to_string(),
            );
            skipped(conditions, "a configuration can be generated");
        }
        Error::Gather(error) => {
            let reason = match error {
                gather::Error::ConfigMapNotFound { .. } => reason::CONFIG_MAP_NOT_FOUND,
                gather::Error::OperatorConfig(_) => reason::OPERATOR_CONFIG_INVALID,
                gather::Error::Image(error) => error.reason(),
                gather::Error::ProviderImage { error, .. } => error.reason(),
                gather::Error::Refused(_) | gather::Error::Api { .. } => {
                    reason::CONFIG_GENERATION_FAILED
                }
            };
            conditions.set(
                condition::CONFIG_GENERATED,
                false,
                reason,
                error.to_string(),
            );
            skipped(conditions, "a configuration can be generated");
        }
        Error::Expand(error) => {
            let reason = match error {
                expand::Error::Refused(Refusal::Undecided(Undecided::Unsupported { .. }))
                | expand::Error::ProposalUnused { .. } => reason::UNSUPPORTED_CONFIG_VERSION,
                expand::Error::Refused(_) | expand::Error::Panicked(_) => {
                    reason::CONFIG_GENERATION_FAILED
                }
            };
            conditions.set(
                condition::CONFIG_GENERATED,
                false,
                reason,
                error.to_string(),
            );
            skipped(conditions, "a configuration can be generated");
        }
        Error::FirstOperator(running) => conditions.set(
            condition::DEPLOYMENT_UPDATED,
            false,
            reason::OTHER_OPERATOR_RUNNING,
            running.to_string(),
        ),
        // There is no status to write to, or it is the status that cannot be written.
        Error::Unreadable(_) | Error::Report(_) => {}
    }
}

fn skipped(conditions: &mut Conditions, until: &str) {
    let message = format!("what runs is left as it is until {until}");
    conditions.set(
        condition::DEPLOYMENT_UPDATED,
        false,
        reason::DEPLOYMENT_UPDATE_SKIPPED,
        message,
    );
}

/// The configuration that runs. Its time is that of its first appearance.
fn config_generation(
    applied: &Applied,
    owner: &Owner,
    old: Option<&ConfigGeneration>,
    now: Timestamp,
) -> Option<ConfigGeneration> {
    let ConfigPlan::Generated(generated) = &applied.plan else {
        return None;
    };
    let Generated {
        yaml,
        counts,
        models,
        schema,
        reason,
        receipt,
        ..
    } = &**generated;
    let name = config_map_name(&owner.name, yaml);
    let same = old.filter(|old| old.config_map_name.as_ref() == Some(&name));
    let reason = match reason {
        Reason::Stated => "the resource or its distribution states it",
        Reason::ServerVersion => "the release of the server is known",
        Reason::Detected => "a plugin recognised the base",
    };
    Some(ConfigGeneration {
        config_map_name: Some(name),
        generated_at: same
            .and_then(|old| old.generated_at.clone())
            .or(Some(Time(now))),
        provider_count: i32::try_from(counts.providers).ok(),
        resource_count: i32::try_from(resource_count(generated)).ok(),
        models: models.iter().take(MOST_MODELS).map(served).collect(),
        schema: Some(schema.clone()),
        schema_reason: Some(reason.to_owned()),
        plugin: Some(PluginIdentity {
            name: receipt.plugin.clone(),
            version: Some(receipt.version.clone()),
            digest: receipt.component.clone(),
        }),
        receipt: Some(digest::of(
            [&*receipt.input, &receipt.component, &receipt.output].join("\n"),
        )),
    })
}

fn served(ModelId { name, id }: &ModelId) -> ServedModel {
    ServedModel {
        name: name.clone(),
        id: id.clone(),
    }
}

fn resource_count(generated: &Generated) -> u32 {
    generated.counts.models + generated.counts.tools + generated.counts.shields
}

fn resolved(applied: &Applied) -> ResolvedDistribution {
    let (kind, digest) = match &applied.gathered.source {
        Source::Base { kind, digest, .. } => (*kind, Some(digest.clone())),
        Source::Override { digest, .. } => (ConfigSourceKind::Override, Some(digest.clone())),
        Source::DistributionDefault => (ConfigSourceKind::DistributionDefault, None),
    };
    let labels = applied.gathered.labels.as_ref();
    ResolvedDistribution {
        image: Some(applied.gathered.image.clone()),
        digest: labels.map(|labels| labels.image_digest.to_string()),
        config_source: Some(kind),
        config_hash: digest,
    }
}

fn active(server: &ServerSource) -> String {
    match server {
        ServerSource::Named(name) => name.clone(),
        ServerSource::Image(_) => "custom".to_owned(),
    }
}

//! The conditions of the steps: `ConfigGenerated`, `SecretsResolved` and `DeploymentUpdated`.

use llsd_api::conditions::{condition, reason};
use llsd_render::objects::ConfigPlan;

use super::Applied;
use super::conditions::Conditions;
use super::config_status::resource_count;
use crate::reconcile::error::Error;

/// Sets the conditions after all steps succeeded.
pub(super) fn succeeded(conditions: &mut Conditions, applied: &Applied) {
    let mut message = match &applied.plan {
        ConfigPlan::Generated(generated) => {
            format!(
                "generated {} providers and {} resources",
                generated.counts.providers,
                resource_count(generated)
            )
        }
        ConfigPlan::Override { config_map, .. } => {
            format!("no configuration is generated: using ConfigMap {config_map:?} unchanged")
        }
        ConfigPlan::DistributionDefault => {
            "no configuration is generated: using the default of the distribution".to_owned()
        }
    };
    for warning in warnings(applied) {
        message.push_str(&format!("\nwarning: {warning}"));
    }
    config_generated(conditions, message);
    secrets_resolved(conditions);
    let mut message = "the Deployment matches the spec".to_owned();
    for failure in &applied.written.optional_failures {
        message.push_str(&format!("\n{failure}"));
    }
    conditions.set(
        condition::DEPLOYMENT_UPDATED,
        true,
        reason::DEPLOYMENT_UPDATE_SUCCEEDED,
        message,
    );
}

/// Sets the conditions after a step failed.
pub(super) fn failed(conditions: &mut Conditions, error: &Error) {
    match error {
        // There is no status to write to, or it is the status that cannot be written.
        Error::Unreadable(_) | Error::Report(_) => {}
        Error::UpstreamRunning(running) => not_updated(
            conditions,
            reason::OTHER_OPERATOR_RUNNING,
            running.to_string(),
        ),
        Error::Rejected(diagnostics) => not_generated(
            conditions,
            reason::CONFIG_GENERATION_FAILED,
            diagnostics.to_string(),
        ),
        Error::Gather(error) if error.waiting_since().is_some() => {
            conditions.set_unknown(
                condition::CONFIG_GENERATED,
                error.reason(),
                error.to_string(),
            );
            update_skipped(conditions, "the image is read");
        }
        Error::Gather(error) => not_generated(conditions, error.reason(), error.to_string()),
        Error::Generate(error) => not_generated(conditions, error.reason(), error.to_string()),
        Error::ResolveSecrets(error) => {
            config_generated(conditions, "generated".to_owned());
            conditions.set(
                condition::SECRETS_RESOLVED,
                false,
                error.reason(),
                error.to_string(),
            );
            update_skipped(conditions, "all secrets are found");
        }
        Error::Deadline(_) => not_updated(
            conditions,
            reason::DEPLOYMENT_UPDATE_FAILED,
            error.to_string(),
        ),
        Error::Apply(error) => {
            config_generated(conditions, "generated".to_owned());
            secrets_resolved(conditions);
            not_updated(
                conditions,
                reason::DEPLOYMENT_UPDATE_FAILED,
                error.to_string(),
            );
        }
    }
}

fn config_generated(conditions: &mut Conditions, message: String) {
    conditions.set(
        condition::CONFIG_GENERATED,
        true,
        reason::CONFIG_GENERATION_SUCCEEDED,
        message,
    );
}

fn not_generated(conditions: &mut Conditions, reason: &str, message: String) {
    conditions.set(condition::CONFIG_GENERATED, false, reason, message);
    update_skipped(conditions, "a configuration can be generated");
}

fn secrets_resolved(conditions: &mut Conditions) {
    conditions.set(
        condition::SECRETS_RESOLVED,
        true,
        reason::ALL_SECRETS_FOUND,
        "all referenced Secret keys exist",
    );
}

fn not_updated(conditions: &mut Conditions, reason: &str, message: String) {
    conditions.set(condition::DEPLOYMENT_UPDATED, false, reason, message);
}

fn update_skipped(conditions: &mut Conditions, until: &str) {
    let message = format!("the running objects stay unchanged until {until}");
    not_updated(conditions, reason::DEPLOYMENT_UPDATE_SKIPPED, message);
}

/// The warnings of the checks, of the plugin and of the operator's settings.
fn warnings(applied: &Applied) -> Vec<String> {
    let of_plugin = match &applied.plan {
        ConfigPlan::Generated(generated) => generated.warnings.as_slice(),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => &[],
    };
    let of_checks = applied.checked.warnings.iter().map(ToString::to_string);
    let of_plugin = of_plugin.iter().map(ToString::to_string);
    let of_operator = applied.gathered.warnings.iter().cloned();
    of_checks.chain(of_plugin).chain(of_operator).collect()
}

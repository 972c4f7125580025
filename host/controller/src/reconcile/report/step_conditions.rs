//! The conditions of the steps: `ConfigGenerated`, `SecretsResolved` and `DeploymentUpdated`.

use llsd_api::conditions::{condition, reason};
use llsd_render::objects::ConfigPlan;

use super::Applied;
use super::conditions::Conditions;
use super::config_status::resource_count;
use crate::reconcile::error::Error;

/// Sets the conditions after all steps succeeded. `missing_exposure_secret` is the Secret of the Ingress
/// or Route if it does not exist. That is no failure: cert-manager creates it once the Ingress exists.
pub(super) fn succeeded(
    conditions: &mut Conditions,
    applied: &Applied,
    missing_exposure_secret: Option<&str>,
) {
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
    secrets_resolved(conditions, missing_exposure_secret);
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
    updates(conditions, applied);
}

/// Reports the updates that are available.
fn updates(conditions: &mut Conditions, applied: &Applied) {
    let Applied {
        updates, setback, ..
    } = applied;
    let Some(first) = updates.first() else {
        return conditions.remove(condition::UPDATE_AVAILABLE);
    };
    let reason = match (setback, updates.len()) {
        (Some(_), _) => reason::ROLLOUT_HALTED,
        (None, 1) => first.part.reason(),
        (None, _) => reason::SEVERAL_UPDATES,
    };
    let mut message = match setback {
        Some(cause) => {
            format!("a rollout set this resource back to its previous revision: {cause}\n")
        }
        None => String::new(),
    };
    for update in updates {
        let turn = match update.is_followed && setback.is_none() {
            true => "; this resource takes it in its turn",
            false => "",
        };
        message.push_str(&format!("{update}{turn}\n"));
    }
    message.push_str("to take it now, run llsd update");
    conditions.set(condition::UPDATE_AVAILABLE, true, reason, message);
}

/// Sets the conditions after a step failed.
pub(super) fn failed(conditions: &mut Conditions, error: &Error) {
    let (reason, message) = (error.reason(), error.details());
    match error {
        // There is no status to write to, it cannot be written, or no step is left that could write it.
        Error::Unreadable(_) | Error::Report(_) | Error::Panicked => {}
        Error::Paused | Error::UpstreamRunning(_) | Error::Deadline(_) | Error::Revision(_) => {
            not_updated(conditions, reason, message);
        }
        Error::Gather(error) if error.waiting_since().is_some() => {
            conditions.set_unknown(condition::CONFIG_GENERATED, reason, message);
            update_skipped(conditions, "the image is read");
        }
        Error::Rejected(_) | Error::Gather(_) | Error::Generate(_) => {
            not_generated(conditions, reason, message);
        }
        Error::ResolveSecrets(_) => {
            config_generated(conditions, "generated".to_owned());
            conditions.set(condition::SECRETS_RESOLVED, false, reason, message);
            update_skipped(conditions, "all secrets are found");
        }
        Error::Apply(_) => {
            config_generated(conditions, "generated".to_owned());
            secrets_resolved(conditions, None);
            not_updated(conditions, reason, message);
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

fn secrets_resolved(conditions: &mut Conditions, missing_exposure_secret: Option<&str>) {
    let mut message = "all referenced Secret keys exist".to_owned();
    if let Some(secret) = missing_exposure_secret {
        message = format!(
            "all Secret keys that the server needs exist\nwarning: Secret not found: {secret} (spec.networking.expose.tlsSecretName); create it, or let cert-manager create it for the Ingress"
        );
    }
    let reason = reason::ALL_SECRETS_FOUND;
    conditions.set(condition::SECRETS_RESOLVED, true, reason, message);
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

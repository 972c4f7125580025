//! Step 7, report: writes the result of a reconciliation, also of a failed one, to the status, and
//! publishes events.
//!
//! The status is written only if it changed, and an event reports a transition. Fields that describe
//! the running configuration stay when a newer one could not be generated.

pub(crate) mod conditions;
mod config_status;
mod external_providers;
mod observed;
mod release;
mod rollout;
mod server;
mod status;
mod step_conditions;
mod summary;
mod transitions;
mod workload;

use std::collections::BTreeMap;

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Request;
use llsd_api::Distribution;
use llsd_api::checked::Checked;
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::v1alpha2::DistributionStatus;
use llsd_render::objects::{ConfigPlan, Owner, service_url};
use llsd_render::schema_of_release;
use serde_json::{Value, json};

use super::apply::Written;
use super::context::Context;
use super::error::Error;
use super::gather::Gathered;
use super::generate::as_adapters;
use super::metadata_response;
use super::updates::Update;
use crate::servers::PollTarget;
use observed::Observed;
use release::ServerDialect;
use rollout::Rollout;

/// The result of a successful apply step.
pub(crate) struct Applied {
    pub(super) checked: Checked,
    pub(super) gathered: Gathered,
    pub(super) plan: ConfigPlan,
    /// The updates that are available.
    pub(super) updates: Vec<Update>,
    /// Why a rollout set the resource back.
    pub(super) setback: Option<String>,
    pub(super) written: Written,
    /// The image of every distribution that a resource can use by name.
    pub(super) distributions: BTreeMap<String, String>,
}

impl Applied {
    /// The server to poll, if a pod is ready.
    fn poll_target(&self, owner: &Owner, rollout: &Rollout) -> Option<PollTarget> {
        (rollout.is_available && rollout.ready > 0).then(|| PollTarget {
            url: service_url(&self.checked, owner),
            tls_secret: self.checked.networking.tls_secret.clone(),
            // During a rollout the pods of the previous generation respond, too.
            generation: rollout.generation.filter(|_| rollout.is_done),
        })
    }

    /// The Secret with the certificate of the Ingress or Route.
    fn exposure_secret(&self) -> Option<&str> {
        let expose = self.checked.networking.expose.as_ref()?;
        expose.tls_secret_name.as_deref()
    }

    /// Whether every object, also every optional one, was written.
    pub(crate) fn is_complete(&self) -> bool {
        self.written.optional_failures.is_empty()
    }
}

/// Writes the status if it changed, and publishes the transitions as events.
pub(crate) async fn report(
    ctx: &Context,
    cr: &Distribution,
    owner: &Owner,
    outcome: &Result<Applied, Error>,
) -> Result<(), Error> {
    let exposure_secret = outcome.as_ref().ok().and_then(Applied::exposure_secret);
    let observed = Observed::read(&ctx.cache, owner, exposure_secret);
    let (old, version) = ctx.statuses.newest(cr);
    let now = Timestamp::now();
    // Kubernetes stores whole seconds. With a fraction, the status would never equal the stored one.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let server = outcome.as_ref().ok().and_then(|applied| {
        let rollout = observed.rollout.as_ref();
        let target = rollout.and_then(|rollout| applied.poll_target(owner, rollout));
        ctx.servers.set_target(owner, target)
    });
    let plugins = ctx.plugins.set.current();
    let schema_of = |release: &str| schema_of_release(&as_adapters(&plugins), release);
    let new_status = |is_same_file| {
        status::status(&status::StatusInputs {
            old: &old,
            generation: cr.metadata.generation,
            owner,
            outcome,
            observed: &observed,
            server: server.as_ref(),
            dialect: ServerDialect {
                schema_of: &schema_of,
                is_same_file,
            },
            now,
        })
    };
    let mut new = new_status(false);
    if let Ok(applied) = outcome
        && release::is_mismatch(&new)
    {
        // The answer takes a plugin call, so that it is computed once for each release.
        let same_file = new_status(true);
        let is_same_file = match release::is_known(&old, &new) {
            true => false,
            false if release::is_known(&old, &same_file) => true,
            false => release::is_same_file(&plugins, applied, &new).await,
        };
        if is_same_file {
            new = same_file;
        }
    }
    ctx.metrics
        .set_release_mismatch(&owner.namespace, &owner.name, release::is_mismatch(&new));
    if new == old {
        return Ok(());
    }
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let change: Patch<()> = Patch::Json(replacement(version, &new));
    let api = Api::<Distribution>::namespaced(ctx.client.clone(), &owner.namespace);
    let request = Request::new(api.resource_url());
    let request = request.patch_subresource("status", &owner.name, &parameters, &change);
    match metadata_response::send(&ctx.client, request).await {
        Ok(written) => {
            ctx.statuses.record(&written, new.clone());
            ctx.events
                .publish(transitions::transitions(&old, &new), &cr.object_ref(&()))
                .await;
            Ok(())
        }
        // The resource was deleted.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        // The status was computed from an old version.
        Err(kube::Error::Api(status)) if status.is_conflict() => {
            ctx.trigger.request(&owner.namespace, &owner.name);
            Ok(())
        }
        Err(error) => Err(Error::Report(Box::new(error))),
    }
}

/// The change that replaces a status. It costs the API server less than an apply. A status that was
/// computed from an old version of the resource must not overwrite a newer one, which the watch is about
/// to deliver, so the change has the version.
fn replacement(version: String, status: &DistributionStatus) -> json_patch::Patch {
    let version = ReplaceOperation {
        path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: Value::String(version),
    };
    let status = AddOperation {
        path: PointerBuf::from_tokens(["status"]),
        value: json!(status),
    };
    json_patch::Patch(vec![
        PatchOperation::Replace(version),
        PatchOperation::Add(status),
    ])
}

//! Watches and reconciles `SchemaPlugin`s.
//!
//! Every replica loads the plugins in use, for its webhooks. Only the leader fetches, decides and
//! writes; the other replicas load what the status names.
//!
//! Only a version that passed every step replaces the version in use. If a step fails, the version in
//! use stays, and the status reports the step and the error.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::schema_plugin::SchemaPluginStatus;
use llsd_plugin::Plugin;
use serde_json::json;
use tokio::sync::watch;

use super::checked_spec::{CheckedSpec, PluginSource};
use super::context::{Context, Guarded, SchemaPluginOptions};
use super::events::transitions;
use super::progress::Progress;
use super::promotion::{Outcome, Promotion, delete_unused};
use super::status::set_conditions;
use super::stored_component::StoredComponents;
use crate::active_plugins::{ActivePlugins, Slot, changes};

/// Requeue delay after a success: a tag may point to a new version.
const POLL: Duration = Duration::from_secs(300);
/// Requeue delay after a transient failure.
const RETRY: Duration = Duration::from_secs(10);
/// Delay between attempts to restore the plugins in use, which all reconciliations wait for.
const RESTORE_RETRY: Duration = Duration::from_secs(1);
/// Requeue delay after any other failure. Registries do not notify about a push or a signature.
const RECHECK: Duration = Duration::from_secs(60);

/// Why a reconciliation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to parse the SchemaPlugin: {0}")]
    Unreadable(String),
    #[error("failed to write the status of the SchemaPlugin")]
    Status(#[source] Box<kube::Error>),
}

/// Serves `SchemaPlugin`s until the future is dropped. A reconciliation may be interrupted anywhere,
/// because the next one starts from the status and the stored components.
pub(crate) async fn serve_schema_plugins(
    options: SchemaPluginOptions,
    plugins: Arc<ActivePlugins>,
    is_leader: watch::Receiver<bool>,
) {
    restore(&options, &plugins).await;
    let api = Api::<Guarded>::all(options.client.clone());
    let mut selected = watcher::Config::default();
    if let Some(selector) = &options.selector {
        selected = selected.labels(selector);
    }
    let metadata_api = Api::all(options.client.clone());
    let (sender, deleted) = watch::channel(BTreeSet::new());
    let deletions = watch_deletions(metadata_api, selected.clone(), plugins.clone(), sender);
    let controller = Controller::new(api, selected);
    let context = Arc::new(Context {
        options,
        plugins: plugins.clone(),
        store: controller.store(),
        is_leader: is_leader.clone(),
        deleted: deleted.clone(),
    });
    let reconciliations = controller
        .reconcile_all_on(plugins.faults.changes())
        .reconcile_all_on(plugins.proposals.changes())
        .reconcile_all_on(changes(is_leader))
        .reconcile_all_on(changes(deleted))
        .run(reconcile, error_policy, context)
        .for_each(|outcome| {
            match outcome {
                Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
                // `watch_deletions` handles it.
                Err(controller::Error::ObjectNotFound(_)) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "failed to reconcile a SchemaPlugin");
                }
            }
            std::future::ready(())
        });
    tokio::select! {
        () = reconciliations => {}
        () = deletions => {}
    }
}

/// Empties the slots of deleted `SchemaPlugin`s, which a controller does not report. A new one of the
/// same name may already use its slot, so `deleted` triggers reconciliations.
async fn watch_deletions(
    api: Api<PartialObjectMeta<SchemaPlugin>>,
    selected: watcher::Config,
    plugins: Arc<ActivePlugins>,
    deleted: watch::Sender<BTreeSet<String>>,
) {
    let mut events = pin!(watcher(api, selected).default_backoff());
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(one)) => {
                listed.insert(one.name_any());
            }
            Ok(Event::InitDone) => plugins.retain_schema_plugins(|name| listed.contains(name)),
            Ok(Event::Delete(one)) => {
                deleted.send_modify(|all| all.extend(one.uid()));
                plugins.retain_schema_plugins(|name| name != one.name_any());
            }
            Ok(Event::Apply(_)) => {}
            Err(error) => tracing::debug!(%error, "watch of SchemaPlugins failed, restarting it"),
        }
    }
}

async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, Error> {
    let resource = guarded
        .0
        .as_ref()
        .map_err(|invalid| Error::Unreadable(invalid.error.clone()))?;
    let action = reconcile_one(resource, &ctx).await;
    let is_deleted = |uid: String| ctx.deleted.borrow().contains(&uid);
    if resource.uid().is_some_and(is_deleted) {
        // It was deleted before this reconciliation filled its slot.
        ctx.plugins.set.retain_slots(&resource.name_any(), &[]);
    }
    action
}

async fn reconcile_one(resource: &SchemaPlugin, ctx: &Context) -> Result<Action, Error> {
    if resource.metadata.deletion_timestamp.is_some() {
        ctx.plugins.set.retain_slots(&resource.name_any(), &[]);
        return Ok(Action::await_change());
    }
    ctx.plugins.proposals.set_prefixes(ctx.proposal_prefixes());
    if !*ctx.is_leader.borrow() {
        return Ok(load_from_status(resource, ctx).await);
    }
    let rollout = resource.spec.rollout.as_ref();
    let existing = rollout.and_then(|rollout| rollout.existing);
    ctx.plugins
        .set
        .set_existing(&resource.name_any(), existing.unwrap_or_default());
    let old = resource.status.clone().unwrap_or_default();
    let mut status = old.clone();
    if old.observed_generation == resource.metadata.generation {
        ctx.plugins
            .faults
            .quarantine(&resource.name_any(), &old.quarantined);
    } else {
        // The new spec may raise the limit that was exceeded.
        ctx.plugins.faults.release(&old.quarantined);
        status.quarantined.clear();
    }
    let (action, promoted) = promote(resource, ctx, &mut status).await;
    let is_changed = status != old;
    if is_changed && !write_status(ctx, resource, &status).await? {
        // It is reconciled again. A version that no status names is not put into use.
        return Ok(action);
    }
    if let Some(promoted) = promoted {
        for (slot, plugin) in promoted {
            ctx.plugins.set.put(slot, plugin);
        }
        let options = &ctx.options;
        let stored = StoredComponents::new(&options.client, &options.namespace, resource);
        delete_unused(&stored, &status).await;
    }
    if is_changed {
        let transitions = transitions(&old, &status);
        for one in &transitions {
            ctx.options.metrics.count_plugin_transition(&one.reason);
        }
        ctx.options
            .events
            .publish(transitions, &resource.object_ref(&()))
            .await;
    }
    Ok(action)
}

/// Decides about the newest versions, and sets the status. Returns what to put into use after the status
/// was written; `None` if nothing was decided.
async fn promote(
    resource: &SchemaPlugin,
    ctx: &Context,
    status: &mut SchemaPluginStatus,
) -> (Action, Option<Vec<(Slot, Plugin)>>) {
    let generation = resource.metadata.generation;
    let now = Timestamp::now();
    // Kubernetes stores whole seconds. With a fraction, the status would never equal the stored one.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let spec = match CheckedSpec::new(&resource.spec) {
        Ok(spec) => spec,
        Err(diagnostics) => {
            load_from_status(resource, ctx).await;
            let outcome = Outcome::new(Progress::InvalidSpec(diagnostics.to_string()));
            set_conditions(status, generation, &outcome, now);
            return (Action::await_change(), None);
        }
    };
    let promotion = Promotion::new(ctx, resource, &spec, now);
    let outcome = match &spec.source {
        PluginSource::Reference(reference) => promotion.promote_named(reference, status).await,
        PluginSource::ProposalPrefix(_) => {
            let specs = ctx.proposal_specs();
            promotion.promote_proposed(&specs, status).await
        }
    };
    let Some(outcome) = outcome else {
        return (Action::requeue(POLL), None);
    };
    set_conditions(status, generation, &outcome, now);
    let delay = match &outcome.progress {
        Progress::Failed(error) if error.is_transient() => RETRY,
        Progress::Failed(_) => RECHECK,
        _ if outcome.verification_loss.is_some() => RECHECK,
        _ => POLL,
    };
    (Action::requeue(delay), Some(outcome.promoted))
}

/// Loads the versions that the status names.
async fn load_from_status(resource: &SchemaPlugin, ctx: &Context) -> Action {
    let restorer = ctx.options.restorer(&ctx.plugins);
    match restorer.restore(resource).await.is_empty() {
        true => Action::await_change(),
        false => Action::requeue(RETRY),
    }
}

fn error_policy(_: Arc<Guarded>, _: &Error, _: Arc<Context>) -> Action {
    Action::requeue(RETRY)
}

/// Loads the plugins that were in use before the operator started. Those that are not stored in the
/// cluster are fetched from their registries later.
async fn restore(options: &SchemaPluginOptions, plugins: &ActivePlugins) {
    let restorer = options.restorer(plugins);
    while let Err(error) = restorer.restore_all(options.selector.as_deref()).await {
        if matches!(&error, kube::Error::Api(status) if status.is_not_found()) {
            // The CRD is not installed, so no plugin was in use.
            break;
        }
        tracing::warn!(%error, "failed to list the SchemaPlugins, retrying");
        tokio::time::sleep(RESTORE_RETRY).await;
    }
    plugins.mark_restored();
}

/// Writes the status. Returns false if the `SchemaPlugin` was deleted or changed meanwhile.
async fn write_status(
    ctx: &Context,
    resource: &SchemaPlugin,
    status: &SchemaPluginStatus,
) -> Result<bool, Error> {
    let name = resource.name_any();
    // The progress of the rollout has another writer.
    let status = &SchemaPluginStatus {
        rollout: None,
        ..status.clone()
    };
    let document = json!({
        "apiVersion": SchemaPlugin::api_version(&()),
        "kind": SchemaPlugin::kind(&()),
        "metadata": { "name": name, "resourceVersion": resource.metadata.resource_version },
        "status": status,
    });
    let api = Api::<SchemaPlugin>::all(ctx.options.client.clone());
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    match api
        .patch_status(&name, &parameters, &Patch::Apply(&document))
        .await
    {
        Ok(_) => Ok(true),
        // It was deleted, possibly before this reconciliation filled its slot.
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            ctx.plugins.set.retain_slots(&name, &[]);
            Ok(false)
        }
        // It changed and is reconciled again.
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
        Err(error) => Err(Error::Status(Box::new(error))),
    }
}

//! One pass over one `SchemaPlugin`.
//!
//! Every replica has the plugins in use, for its webhooks. Only the one that leads asks registries,
//! decides and writes; the others load what its status says.
//!
//! The version in use is replaced only by one that went through every step. Whatever fails leaves it
//! where it is, and the status says which step failed and why.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::schema_plugin::SchemaPluginStatus;
use llsd_plugin::Host;
use serde_json::json;
use tokio::sync::watch;

use super::adopt::Adoption;
use super::events::transitions;
use super::shadow::Resources;
use super::status::{Progress, conditions};
use super::take_over::Pass;
use super::terms::{Subject, Terms};
use super::{Plugins, changes};
use crate::configuration::Registries;
use crate::metrics::Metrics;
use crate::report::Events;

/// A tag is asked for again.
const POLL: Duration = Duration::from_secs(300);
/// A registry that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(10);
/// An API server that did not list the `SchemaPlugin`s is asked again: everybody waits.
const RESTORE: Duration = Duration::from_secs(1);
/// What somebody has to mend is tried again: nobody tells us of a push or a signature.
const RECHECK: Duration = Duration::from_secs(60);

/// What the controller of `SchemaPlugin`s works with.
pub(crate) struct PluginSettings {
    pub(crate) client: Client,
    pub(crate) registries: Arc<Registries>,
    pub(crate) host: Host,
    /// The operator's own namespace: kept bytes, and references without a namespace.
    pub(crate) namespace: String,
    /// Which `SchemaPlugin`s are ours; all when absent.
    pub(crate) selector: Option<String>,
    /// What a new version is compared by before it takes over.
    pub(crate) resources: Resources,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the SchemaPlugin could not be read: {0}")]
    Unreadable(String),
    #[error("the API server did not take the status of the SchemaPlugin")]
    Status(#[source] Box<kube::Error>),
}

type Guarded = DeserializeGuard<SchemaPlugin>;

pub(super) struct Context {
    pub(super) settings: PluginSettings,
    pub(super) plugins: Arc<Plugins>,
    /// Every `SchemaPlugin`: the longest prefix among them decides about a proposal.
    store: Store<Guarded>,
    /// Whether this replica writes.
    leads: watch::Receiver<bool>,
    /// The uids of those that were deleted. `store` may be told of it later.
    gone: watch::Receiver<BTreeSet<String>>,
}

/// Serves `SchemaPlugin`s until it is dropped. A pass may be cut anywhere: the next one starts from
/// what the status and the kept bytes say.
pub(crate) async fn serve_schema_plugins(
    settings: PluginSettings,
    plugins: Arc<Plugins>,
    leads: watch::Receiver<bool>,
) {
    settings.restore(&plugins).await;
    let api = Api::<Guarded>::all(settings.client.clone());
    let mut watched = watcher::Config::default();
    if let Some(selector) = &settings.selector {
        watched = watched.labels(selector);
    }
    let of_deleted = Api::all(settings.client.clone());
    let (forgotten, gone) = watch::channel(BTreeSet::new());
    let deleted = forget_deleted(of_deleted, watched.clone(), plugins.clone(), forgotten);
    let controller = Controller::new(api, watched);
    let context = Arc::new(Context {
        settings,
        plugins: plugins.clone(),
        store: controller.store(),
        leads: leads.clone(),
        gone: gone.clone(),
    });
    let serving = controller
        .reconcile_all_on(plugins.faults.changes())
        .reconcile_all_on(plugins.proposals.changes())
        .reconcile_all_on(changes(leads))
        .reconcile_all_on(changes(gone))
        .run(reconcile, error_policy, context)
        .for_each(|outcome| {
            match outcome {
                Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
                // Told of by `forget_deleted`.
                Err(controller::Error::ObjectNotFound(_)) => {}
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "not reconciled");
                }
            }
            std::future::ready(())
        });
    tokio::select! {
        () = serving => {}
        () = deleted => {}
    }
}

/// Empties the places of `SchemaPlugin`s that are gone, of which a controller is not told. Another of
/// the same name may have filled its place already, so `forgotten` asks for passes.
async fn forget_deleted(
    api: Api<PartialObjectMeta<SchemaPlugin>>,
    watched: watcher::Config,
    plugins: Arc<Plugins>,
    forgotten: watch::Sender<BTreeSet<String>>,
) {
    let mut events = pin!(watcher(api, watched).default_backoff());
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(one)) => {
                listed.insert(one.name_any());
            }
            Ok(Event::InitDone) => plugins.set.keep_only(&listed),
            Ok(Event::Delete(gone)) => {
                forgotten.send_modify(|all| all.extend(gone.uid()));
                plugins.set.retain(&gone.name_any(), &[]);
            }
            Ok(Event::Apply(_)) => {}
            Err(error) => tracing::debug!(%error, "the watch of SchemaPlugins starts again"),
        }
    }
}

async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, Error> {
    let resource = guarded
        .0
        .as_ref()
        .map_err(|invalid| Error::Unreadable(invalid.error.clone()))?;
    let action = serve(resource, &ctx).await;
    let is_gone = |uid: String| ctx.gone.borrow().contains(&uid);
    if resource.uid().is_some_and(is_gone) {
        // Deleted before this pass put something into its place.
        ctx.plugins.set.retain(&resource.name_any(), &[]);
    }
    action
}

async fn serve(resource: &SchemaPlugin, ctx: &Context) -> Result<Action, Error> {
    if resource.metadata.deletion_timestamp.is_some() {
        ctx.plugins.set.retain(&resource.name_any(), &[]);
        return Ok(Action::await_change());
    }
    if !*ctx.leads.borrow() {
        return Ok(follow(resource, ctx).await);
    }
    let old = resource.status.clone().unwrap_or_default();
    let mut status = old.clone();
    let generation = resource.metadata.generation;
    if old.observed_generation == generation {
        ctx.plugins.faults.remember(&old.quarantined);
    } else {
        // Another spec may grant what was missing.
        ctx.plugins.faults.forgive(&old.quarantined);
        status.quarantined.clear();
    }
    let now = Timestamp::now();
    // Kubernetes writes whole seconds; with a fraction the status would never equal what is stored.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let action = match Terms::of(&resource.spec) {
        Err(rejections) => {
            follow(resource, ctx).await;
            let progress = Progress::Refused(rejections.to_string());
            conditions(&mut status, generation, &progress, None, now);
            Action::await_change()
        }
        Ok(terms) => {
            let pass = Pass::new(ctx, resource, &terms, now);
            let outcome = match &terms.subject {
                Subject::Plugin(reference) => pass.named(reference, &mut status).await,
                Subject::Proposals(_) => pass.proposed(&ctx.prefixes(), &mut status).await,
            };
            if let Some((progress, verdict)) = &outcome {
                conditions(&mut status, generation, progress, verdict.as_ref(), now);
            }
            Action::requeue(match outcome {
                Some((Progress::Stopped(error), _)) if error.is_transient() => RETRY,
                Some((Progress::Stopped(_), _)) => RECHECK,
                _ => POLL,
            })
        }
    };
    if status != old && ctx.write(resource, &status).await? {
        let told = transitions(&old, &status);
        for one in &told {
            ctx.settings.metrics.count_plugin_transition(&one.reason);
        }
        ctx.settings
            .events
            .tell(told, &resource.object_ref(&()))
            .await;
    }
    Ok(action)
}

/// Uses what the status says is in use.
async fn follow(resource: &SchemaPlugin, ctx: &Context) -> Action {
    let adoption = ctx.settings.adoption(&ctx.plugins);
    match adoption.one(resource).await.is_empty() {
        true => Action::await_change(),
        false => Action::requeue(RETRY),
    }
}

fn error_policy(_: Arc<Guarded>, _: &Error, _: Arc<Context>) -> Action {
    Action::requeue(RETRY)
}

impl PluginSettings {
    /// Uses what was in use before this start. What the cluster does not have is left to registries.
    async fn restore(&self, plugins: &Plugins) {
        let adoption = self.adoption(plugins);
        while let Err(error) = adoption.all(self.selector.as_deref()).await {
            if matches!(&error, kube::Error::Api(answer) if answer.is_not_found()) {
                // Nobody has installed the definition, so that nothing was in use.
                break;
            }
            tracing::warn!(%error, "the API server did not list the SchemaPlugins");
            tokio::time::sleep(RESTORE).await;
        }
        plugins.restored.send_replace(true);
    }

    fn adoption<'a>(&'a self, plugins: &'a Plugins) -> Adoption<'a> {
        Adoption {
            client: &self.client,
            host: &self.host,
            namespace: &self.namespace,
            plugins,
        }
    }
}

impl Context {
    /// The terms of every `SchemaPlugin` that lets images propose.
    fn prefixes(&self) -> Vec<Terms> {
        let all = self.store.state();
        let specs = all.iter().filter_map(|one| one.0.as_ref().ok());
        let terms = specs.filter_map(|one| Terms::of(&one.spec).ok());
        terms
            .filter(|terms| matches!(terms.subject, Subject::Proposals(_)))
            .collect()
    }

    /// Writes the status; whether it was taken.
    async fn write(
        &self,
        resource: &SchemaPlugin,
        status: &SchemaPluginStatus,
    ) -> Result<bool, Error> {
        let name = resource.name_any();
        let document = json!({
            "apiVersion": SchemaPlugin::api_version(&()),
            "kind": SchemaPlugin::kind(&()),
            "metadata": { "name": name, "resourceVersion": resource.metadata.resource_version },
            "status": status,
        });
        let api = Api::<SchemaPlugin>::all(self.settings.client.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match api
            .patch_status(&name, &parameters, &Patch::Apply(&document))
            .await
        {
            Ok(_) => Ok(true),
            // It was deleted meanwhile, perhaps before this pass put something into its place.
            Err(kube::Error::Api(answer)) if answer.is_not_found() => {
                self.plugins.set.retain(&name, &[]);
                Ok(false)
            }
            // It was changed meanwhile: soon there is another pass.
            Err(kube::Error::Api(answer)) if answer.is_conflict() => Ok(false),
            Err(error) => Err(Error::Status(Box::new(error))),
        }
    }
}

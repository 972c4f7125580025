//! Creates the parts of an operator and starts its background tasks.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use llsd_plugin::Host;
use llsd_render::objects::{Cluster, Kind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::resource_watch::watch_resources;
use super::{Endpoints, Options};
use crate::active_plugins::ActivePlugins;
use crate::cache::{
    Backoff, ClusterCache, ContentCache, InProgress, Pace, ReconcileQueue, ReconcileTrigger,
    References, ResourceRef, ResourceStore, StatusCache, Watches,
};
use crate::images::{Fetcher, Images, Registries};
use crate::plugins::{Resources, SchemaPluginOptions, serve_schema_plugins};
use crate::process::{Events, Health, ServeError, serve_metrics, serve_probes};
use crate::reconcile::Context;
use crate::reconcile::revisions::Revisions;
use crate::reconcile::rollouts::Rollouts;
use crate::reconcile::tags::Tags;
use crate::servers::ServerPoller;
use crate::settings::{CurrentSettings, SettingsWatcher};

/// The parts of an operator.
pub(super) struct Assembly {
    pub(super) context: Arc<Context>,
    /// All resources.
    pub(super) store: ResourceStore,
    /// The resources that were triggered.
    pub(super) triggered: BoxStream<'static, ResourceRef>,
    /// Tells the watch of resources and the `SchemaPlugin` controller whether this replica is the leader.
    pub(super) is_leader: watch::Sender<bool>,
    /// The `SchemaPlugin` controller.
    pub(super) schema_plugins: JoinSet<()>,
    /// Watches, polling and endpoints, which run until the set is dropped.
    pub(super) background: JoinSet<()>,
}

/// Creates the parts of an operator and starts its background tasks.
pub(super) fn assemble(options: Options, cluster: Cluster) -> Assembly {
    let Options {
        client,
        write_pace,
        plugins,
        plugins_in_use,
        distributions_in_use,
        lookup,
        image_lookup,
        host,
        plugin_selector,
        scope,
        operator_namespace,
        registries,
        keyring,
        workers,
        identity,
        endpoints,
        polling,
        tag_interval: _,
        metrics,
    } = options;
    let kinds = Kind::ALL.iter().copied();
    let cache = Arc::new(ClusterCache::new(
        kinds.filter(|kind| kind.is_served(&cluster)),
    ));
    lookup.connect(&scope, &cache);
    let references = Arc::new(References::default());
    let (trigger, triggered) = ReconcileTrigger::new();
    let events = Arc::new(Events::new(client.clone(), identity));
    let settings = Arc::new(CurrentSettings::default());
    let settings_watcher = SettingsWatcher {
        client: client.clone(),
        operator_namespace: operator_namespace.clone(),
        settings: settings.clone(),
        distributions: distributions_in_use,
        registries: registries.clone(),
        references: references.clone(),
        trigger: trigger.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
    };
    let statuses = Arc::<StatusCache>::default();
    let in_progress = InProgress::new(cache.clone(), statuses.clone(), trigger.clone());
    let in_progress = Arc::new(in_progress);
    let watches = Watches {
        client: client.clone(),
        scope: scope.clone(),
        cache: cache.clone(),
        references: references.clone(),
        in_progress: in_progress.clone(),
        trigger: trigger.clone(),
    };
    let images = Images::new(client.clone(), registries.clone(), keyring);
    let images = Fetcher::new(images, cache.clone(), trigger.clone());
    image_lookup.connect(&images);
    let context = Arc::new(Context {
        client: client.clone(),
        write_pace,
        scope,
        plugins: Arc::new(ActivePlugins::new(plugins, plugins_in_use)),
        images,
        settings,
        references,
        cluster,
        cache: cache.clone(),
        contents: ContentCache::new(client.clone(), cache.clone(), operator_namespace.clone()),
        revisions: Revisions::new(client.clone(), cache.clone()),
        rollouts: Rollouts::default(),
        tags: Tags::default(),
        statuses,
        in_progress,
        events: events.clone(),
        backoff: Backoff::default(),
        pace: Pace::default(),
        queue: ReconcileQueue::new(workers, trigger.clone()),
        servers: ServerPoller::new(polling),
        trigger,
        health: Arc::new(Health::new(cache)),
        metrics: metrics.clone(),
    });

    let mut background = watches.start();
    background.spawn(settings_watcher.run());
    let poller = context.clone();
    background.spawn(async move { poller.servers.run(&poller.contents, &poller.trigger).await });
    let loading = context.clone();
    background.spawn(async move { loading.revisions.load_all(&loading.scope).await });
    let (is_leader, receiver) = watch::channel(false);
    let (store, writer) = ResourceStore::new();
    background.spawn(watch_resources(context.clone(), writer, receiver.clone()));
    let caches = Caches {
        context: context.clone(),
        resources: store.clone(),
        host: host.clone(),
        registries: registries.clone(),
    };
    serve(&mut background, endpoints, &context, move || {
        caches.measure()
    });

    let schema_plugin_options = SchemaPluginOptions {
        client,
        registries,
        host,
        namespace: operator_namespace,
        selector: plugin_selector,
        resources: Resources::new(store.clone(), context.clone()),
        events,
        metrics,
    };
    let controller = serve_schema_plugins(schema_plugin_options, context.plugins.clone(), receiver);
    Assembly {
        context,
        store,
        triggered: triggered.boxed(),
        is_leader,
        schema_plugins: JoinSet::from_iter([controller]),
        background,
    }
}

/// Starts the servers for probes and metrics.
fn serve(
    tasks: &mut JoinSet<()>,
    endpoints: Endpoints,
    context: &Arc<Context>,
    measure: impl Fn() + Send + Sync + 'static,
) {
    let Endpoints { probes, metrics } = endpoints;
    if let Some(listener) = probes {
        let health = context.health.clone();
        tasks.spawn(async { log(serve_probes(listener, health).await) });
    }
    if let Some(listener) = metrics {
        let (metrics, client) = (context.metrics.clone(), context.client.clone());
        tasks.spawn(async { log(serve_metrics(listener, metrics, client, measure).await) });
    }
}

/// What has a cache.
struct Caches {
    context: Arc<Context>,
    resources: ResourceStore,
    host: Host,
    registries: Arc<Registries>,
}

impl Caches {
    /// Sets the metrics of all caches.
    fn measure(&self) {
        let context = &self.context;
        let (config_maps, secrets) = context.contents.bytes();
        let (registries, registries_on_disk) = self.registries.current().cached_bytes();
        let caches = [
            ("resources", self.resources.bytes() as u64),
            ("objects", context.cache.bytes() as u64),
            ("resolutions", context.revisions.bytes() as u64),
            ("config_maps", config_maps as u64),
            ("secrets", secrets as u64),
            ("images", context.images.bytes() as u64),
            ("registries", registries),
            ("registries_on_disk", registries_on_disk),
            ("bases", context.contents.bases().bytes() as u64),
            ("results", self.host.result_bytes() as u64),
            ("compiled_on_disk", self.host.compiled_bytes()),
        ];
        for (cache, bytes) in caches {
            context.metrics.set_cache_bytes(cache, bytes);
        }
    }
}

fn log(result: Result<(), ServeError>) {
    if let Err(error) = result {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "a server of the operator stopped");
    }
}

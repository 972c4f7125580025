//! The process: its watches, its servers, who leads, and the passes.

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use kube_lease_manager::LeaseManagerError;
use llsd_api::Distribution;
use llsd_plugin::{Host, Plugin};
use llsd_registry::Keyring;
use llsd_render::objects::Kind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::configuration::{Configurations, Distributions, Follower, Registries};
use crate::context::Context;
use crate::gather::{Contents, discover};
use crate::health::Health;
use crate::images::Images;
use crate::lead::Candidacy;
use crate::metrics::Metrics;
use crate::migrate::{Migration, migrate_storage};
use crate::patience::Patience;
use crate::plugins::{PluginSettings, Plugins, Resources, serve_schema_plugins};
use crate::polling::{Polling, Polls};
use crate::reconcile::{error_policy, reconcile};
use crate::references::References;
use crate::report::{Events, Recent};
use crate::serve;
use crate::turns::Turns;
use crate::view::{Followers, Seen, View, Wake, Woken};

/// The kinds that every cluster serves.
const KINDS: [Kind; 10] = [
    Kind::ConfigMap,
    Kind::Secret,
    Kind::ServiceAccount,
    Kind::PersistentVolumeClaim,
    Kind::Deployment,
    Kind::Service,
    Kind::NetworkPolicy,
    Kind::HorizontalPodAutoscaler,
    Kind::PodDisruptionBudget,
    Kind::Ingress,
];

/// A resource as the watch gives it.
type Stored = DeserializeGuard<Distribution>;

/// Which namespaces an operator serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Cluster,
    /// One.
    Namespace(String),
}

/// What an operator works with.
pub struct Settings {
    /// The cluster.
    pub client: Client,
    /// Schema adapters and provider packs; those that come first are asked first.
    pub plugins: Vec<Plugin>,
    /// Told of the plugins in use, and of every change: those above, and those of `SchemaPlugin`s.
    pub plugins_in_use: watch::Sender<Arc<[Plugin]>>,
    /// Told of the distributions that resources can name, and of every change: those built in, and
    /// those of the operator's ConfigMap.
    pub distributions_in_use: watch::Sender<Arc<Distributions>>,
    /// Shows what the watches see, whether this replica leads or not.
    pub seen: Seen,
    /// Loads the plugins that `SchemaPlugin`s name.
    pub host: Host,
    /// Label selector of the `SchemaPlugin`s to serve; all of them when absent.
    pub plugin_selector: Option<String>,
    /// Which namespaces to serve.
    pub scope: Scope,
    /// The operator's own namespace, where it keeps what belongs to itself.
    pub home: String,
    /// How images and plugins are read.
    pub registries: Arc<Registries>,
    /// Credentials of the operator itself, tried after those of a resource.
    pub keyring: Keyring,
    /// Resources that are reconciled at the same time.
    pub workers: u16,
    /// The name of this replica among others, of which only one may write. Absent: it is the only one.
    pub identity: Option<String>,
    /// Where it can be asked how it is.
    pub endpoints: Endpoints,
    /// How running servers are asked what they are. Absent: they are not.
    pub polling: Option<Polling>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Where an operator can be asked how it is.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// For `/healthz` and `/readyz`, in plain text.
    pub probes: Option<TcpListener>,
    /// For `/metrics`, over TLS.
    pub metrics: Option<TcpListener>,
}

/// Why an operator ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot stand for the lead.
    #[error("cannot use the Lease by which replicas agree who writes")]
    Lease(#[from] LeaseManagerError),
    /// Another replica leads now.
    #[error("another replica has taken the lead; this one must start afresh")]
    LeadLost,
}

/// Runs until `shutdown` is done; reconciliations under way are finished first.
pub async fn run(
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let Settings {
        client,
        plugins,
        plugins_in_use,
        distributions_in_use,
        seen,
        host,
        plugin_selector,
        scope,
        home,
        registries,
        keyring,
        workers,
        identity,
        endpoints,
        polling,
        metrics,
    } = settings;
    let shutdown = shutdown.shared();
    let cluster = tokio::select! {
        () = shutdown.clone() => return Ok(()),
        cluster = discover(&client) => cluster,
    };
    // Only where they are made: elsewhere nobody lets the operator watch them.
    let routes = cluster.has_routes.then_some(Kind::Route);
    let bindings = cluster.has_any_uid.then_some(Kind::RoleBinding);
    let references = Arc::new(References::default());
    let plugins = Arc::new(Plugins::new(plugins, plugins_in_use));
    let view = Arc::new(View::new(KINDS.into_iter().chain(routes).chain(bindings)));
    seen.through(&scope, &view);
    let health = Arc::new(Health::new(view.clone()));
    let (wake, woken) = Wake::new();
    let mut woken = woken.boxed();
    let configurations = Arc::new(Configurations::default());
    let events = Arc::new(Events::new(client.clone(), identity.clone()));
    let settings = Follower {
        client: client.clone(),
        home: home.clone(),
        configurations: configurations.clone(),
        distributions: distributions_in_use,
        registries: registries.clone(),
        references: references.clone(),
        wake: wake.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
    };
    let followers = Followers {
        client: client.clone(),
        scope: scope.clone(),
        view: view.clone(),
        references: references.clone(),
        wake: wake.clone(),
    };
    let context = Arc::new(Context {
        client: client.clone(),
        plugins: plugins.clone(),
        images: Images::new(client.clone(), registries.clone(), keyring),
        configurations,
        wake,
        references,
        cluster,
        view: view.clone(),
        contents: Contents::new(client.clone(), view, home.clone()),
        recent: Recent::default(),
        events,
        patience: Patience::default(),
        turns: Turns::new(workers),
        polls: Polls::new(polling),
        health: health.clone(),
        metrics: metrics.clone(),
    });
    let mut watches = followers.start();
    watches.spawn(settings.follow());
    let asking = context.clone();
    watches.spawn(async move { asking.polls.run(&asking.contents, &asking.wake).await });
    let (lead, leads) = watch::channel(false);
    let (resources, stored) = reflector::store();
    let of_plugins = PluginSettings {
        client: client.clone(),
        registries,
        host,
        namespace: home.clone(),
        selector: plugin_selector,
        resources: Resources {
            all: resources.clone(),
            context: context.clone(),
        },
        events: context.events.clone(),
        metrics: metrics.clone(),
    };
    let serving = JoinSet::from_iter([serve_schema_plugins(of_plugins, plugins, leads)]);
    let _answers = answer(endpoints, health, metrics, &client);
    let candidacy = match &identity {
        Some(identity) => {
            let candidacy = Candidacy::stand(client.clone(), &home, identity).await?;
            // Who leads looks at everything first; until then nobody takes what the watches send.
            let unheard = async {
                while woken.next().await.is_some() {}
                std::future::pending().await
            };
            tokio::select! {
                () = candidacy.becomes(true) => {}
                () = unheard => {}
                () = shutdown.clone() => {
                    candidacy.resign().await;
                    return Ok(());
                }
            }
            tracing::info!(identity, "leading");
            Some(candidacy)
        }
        None => None,
    };
    lead.send_replace(true);
    // Who serves one namespace may not write in the others.
    let _migration =
        (scope == Scope::Cluster).then(|| JoinSet::from_iter([migrate(client.clone())]));
    let stop_serving = shutdown.clone().map(|()| drop(serving));
    let leading = async {
        futures::join!(
            reconcile_all(context, &scope, (resources, stored), woken, shutdown),
            stop_serving,
        );
    };
    let Some(candidacy) = candidacy else {
        leading.await;
        return Ok(());
    };
    tokio::select! {
        () = leading => {}
        // Another replica writes from now on: passes under way are cut, and not finished.
        () = candidacy.becomes(false) => return Err(Error::LeadLost),
    }
    if candidacy.is_leading() {
        candidacy.resign().await;
    }
    Ok(())
}

/// Resources that the first operator left are stored anew, once; nothing waits for it.
async fn migrate(client: Client) {
    match migrate_storage(&client).await {
        Ok(Migration::NothingToDo) => {}
        Ok(Migration::Done(resources)) => tracing::info!(resources, "stored as v1alpha2"),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "not everything is stored as v1alpha2; llsd migrate tries again"
            );
        }
    }
}

/// Passes over resources until `end` is done.
async fn reconcile_all(
    context: Arc<Context>,
    scope: &Scope,
    (reader, writer): (Store<Stored>, Writer<Stored>),
    woken: impl Stream<Item = Woken> + Send + 'static,
    end: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let forgetting = context.clone();
    let api = scope.api::<Stored>(&context.client);
    let resources = watcher(api, watcher::Config::default())
        .default_backoff()
        // Half of a resource, and nobody here asks who wrote it.
        .modify(|resource| resource.managed_fields_mut().clear())
        .reflect(writer)
        // A controller is told of what there is, and not of what is gone.
        .inspect(move |event| {
            if let Ok(Event::Delete(gone)) = event {
                forgetting.forget(&gone.namespace().unwrap_or_default(), &gone.name_any());
            }
        })
        .applied_objects();
    let changes = context.plugins.set.changes();
    // What is not known yet would be taken for missing.
    let known = async {
        futures::join!(
            context.view.complete(),
            context.plugins.restored(),
            context.configurations.current(),
        );
    };
    tokio::select! {
        () = end.clone() => return,
        () = known => {}
    }
    let passes = Controller::for_stream(resources, reader.clone())
        .reconcile_on(woken)
        .reconcile_all_on(changes)
        .graceful_shutdown_on(end.clone())
        .run(reconcile, error_policy, context.clone())
        .for_each(|outcome| {
            match outcome {
                Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
                Err(controller::Error::ObjectNotFound(resource)) => {
                    let namespace = resource.namespace.as_deref().unwrap_or_default();
                    context.forget(namespace, &resource.name);
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "not reconciled")
                }
            }
            std::future::ready(())
        });
    // Before its first list a controller cannot be told to stop.
    let ended_early = async {
        tokio::select! {
            _ = reader.wait_until_ready() => std::future::pending().await,
            () = end => {}
        }
    };
    tokio::select! {
        () = passes => {}
        () = ended_early => {}
    }
}

/// Starts the servers. They end when the set is dropped.
fn answer(
    endpoints: Endpoints,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    client: &Client,
) -> JoinSet<()> {
    let mut servers = JoinSet::new();
    let Endpoints {
        probes,
        metrics: scrapes,
    } = endpoints;
    if let Some(listener) = probes {
        servers.spawn(async { tell(serve::probes(listener, health).await) });
    }
    if let Some(listener) = scrapes {
        let client = client.clone();
        servers.spawn(async { tell(serve::metrics(listener, metrics, client).await) });
    }
    servers
}

fn tell(ended: Result<(), serve::Error>) {
    if let Err(error) = ended {
        tracing::error!(error = &error as &dyn std::error::Error, "a server ended");
    }
}

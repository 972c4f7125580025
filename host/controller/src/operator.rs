//! The operator: wires all parts together and runs them.
//!
//! Every replica watches the cluster, loads the plugins in use and serves its endpoints. Only the
//! leader reconciles.

mod assembly;
mod resource_controller;
mod resource_watch;
mod resync;

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use llsd_plugin::{Host, Plugin};
use llsd_registry::Keyring;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::{ObjectLookup, Scope};
use crate::images::{ImageLookup, Registries};
use crate::process::{LeaderElection, Metrics, Migration, WritePace, discover, migrate_storage};
use crate::reconcile::rollouts::coordinate;
use crate::reconcile::tags::check_tags;
use crate::servers::Polling;
use crate::settings::Distributions;
use assembly::{Assembly, assemble};
use resource_controller::{discard, reconcile_all};
use resync::resync;

/// The first and the longest delay between two attempts of the storage migration.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_secs(600);

/// The options of an operator.
pub struct Options {
    /// The Kubernetes client.
    pub client: Client,
    /// Slows the writes of the client while someone else changes resources.
    pub write_pace: WritePace,
    /// The built-in schema adapters and provider packs, in the order in which they are tried.
    pub plugins: Vec<Plugin>,
    /// Receives the plugins in use, built-in and from `SchemaPlugin`s, and every change.
    pub plugins_in_use: watch::Sender<Arc<[Plugin]>>,
    /// Receives the distributions that resources can use by name, and every change.
    pub distributions_in_use: watch::Sender<Arc<Distributions>>,
    /// Gives other parts of the process access to the watched objects, also on a replica that is not
    /// the leader.
    pub lookup: ObjectLookup,
    /// Lets other parts of the process read images with the operator's limits, also on a replica that
    /// is not the leader.
    pub image_lookup: ImageLookup,
    /// Loads the plugins of `SchemaPlugin`s.
    pub host: Host,
    /// Label selector of the `SchemaPlugin`s to serve; all if `None`.
    pub plugin_selector: Option<String>,
    /// The namespaces to serve.
    pub scope: Scope,
    /// The operator's own namespace, for its settings, Lease and stored components.
    pub operator_namespace: String,
    /// The registry client for images and plugins.
    pub registries: Arc<Registries>,
    /// The operator's own registry credentials, which are tried after those of a resource.
    pub keyring: Keyring,
    /// The maximum number of concurrent reconciliations.
    pub workers: u16,
    /// The name of this replica for leader election; `None` if there is only one replica.
    pub identity: Option<String>,
    /// Where the operator serves probes and metrics.
    pub endpoints: Endpoints,
    /// How running servers are polled; `None` if they are not.
    pub polling: Option<Polling>,
    /// How often tags in use are checked for new images; `None` if they are not.
    pub tag_interval: Option<Duration>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

/// Where the operator serves probes and metrics.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// For `/healthz` and `/readyz`, over HTTP.
    pub probes: Option<TcpListener>,
    /// For `/metrics`, over HTTPS.
    pub metrics: Option<TcpListener>,
}

/// Why an operator stopped before its shutdown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica is the leader now.
    #[error("lost leadership to another replica; restart this replica")]
    LeadershipLost,
}

/// Runs an operator until `shutdown` completes. Reconciliations in progress are finished first.
pub async fn run(
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let shutdown = shutdown.shared();
    let cluster = tokio::select! {
        () = shutdown.clone() => return Ok(()),
        cluster = discover(&options.client, &options.scope) => cluster,
    };
    let (client, scope) = (options.client.clone(), options.scope.clone());
    let (namespace, identity) = (options.operator_namespace.clone(), options.identity.clone());
    let tag_interval = options.tag_interval;
    let Assembly {
        context,
        store,
        mut triggered,
        is_leader,
        schema_plugins,
        background: _background,
    } = assemble(options, cluster);
    // The pod gets no more requests from the Service while it stops.
    let (draining, stopped) = (context.health.clone(), shutdown.clone());
    let _drain = JoinSet::from_iter([stopped.map(move |()| draining.drain())]);

    let election = match identity {
        Some(identity) => {
            let election = LeaderElection::join(client.clone(), &namespace, &identity);
            tokio::select! {
                () = election.acquire() => {}
                // A new leader reconciles every resource, so earlier triggers are not needed.
                () = discard(&mut triggered) => {}
                () = shutdown.clone() => {
                    election.release().await;
                    return Ok(());
                }
            }
            tracing::info!(identity, "acquired leadership");
            Some(election)
        }
        None => None,
    };
    is_leader.send_replace(true);
    // An operator for one namespace may not write in others.
    let _migration = (scope == Scope::Cluster).then(|| JoinSet::from_iter([migrate(client)]));
    let mut paced = JoinSet::new();
    paced.spawn(resync(store.clone(), context.trigger.clone()));
    paced.spawn(coordinate(
        context.clone(),
        store.clone(),
        namespace.clone(),
    ));
    if let Some(interval) = tag_interval {
        paced.spawn(check_tags(context.clone(), interval));
    }
    let stop_schema_plugins = shutdown.clone().map(|()| drop(schema_plugins));
    let reconciling = async {
        futures::join!(
            reconcile_all(context, store, triggered, shutdown),
            stop_schema_plugins,
        );
    };

    let Some(election) = election else {
        reconciling.await;
        return Ok(());
    };
    tokio::select! {
        () = reconciling => {}
        // Another replica writes from now on, so reconciliations in progress are aborted.
        () = election.lost() => return Err(Error::LeadershipLost),
    }
    if election.is_leader() {
        election.release().await;
    }
    Ok(())
}

/// Migrates resources of llama-stack-k8s-operator to the storage version. Repeats it until it succeeds:
/// the API server may not reach the conversion webhook yet, and its author may correct a resource that
/// it rejects.
async fn migrate(client: Client) {
    let mut pause = FIRST_RETRY;
    loop {
        match migrate_storage(&client).await {
            Ok(Migration::NothingToDo) => return,
            Ok(Migration::Done(resources)) => {
                tracing::info!(resources, "migrated resources to v1alpha2");
                return;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    retry_after = ?pause,
                    "failed to migrate all resources to v1alpha2"
                );
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_RETRY);
    }
}

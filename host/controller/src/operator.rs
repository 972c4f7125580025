//! The process: which watches run, and what wakes a resource.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use kube::Client;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Controller};
use kube::runtime::watcher;
use llsd_api::Distribution;
use llsd_plugin::Plugin;
use llsd_render::distributions;
use llsd_render::objects::Kind;

use crate::context::Context;
use crate::gather::Contents;
use crate::reconcile::{error_policy, reconcile};
use crate::references::References;
use crate::report::{Events, Recent};
use crate::view::{Followers, View, Wake};

/// Resources that are reconciled at the same time.
const WORKERS: u16 = 4;

/// The kinds that every cluster serves.
const KINDS: [Kind; 11] = [
    Kind::ConfigMap,
    Kind::Secret,
    Kind::ServiceAccount,
    Kind::RoleBinding,
    Kind::PersistentVolumeClaim,
    Kind::Deployment,
    Kind::Service,
    Kind::NetworkPolicy,
    Kind::HorizontalPodAutoscaler,
    Kind::PodDisruptionBudget,
    Kind::Ingress,
];

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
    /// Which namespaces to serve.
    pub scope: Scope,
    /// The operator's own namespace, where it keeps what belongs to itself.
    pub home: String,
}

/// Runs until `shutdown` is done; reconciliations under way are finished first.
pub async fn run(settings: Settings, shutdown: impl Future<Output = ()> + Send + Sync + 'static) {
    let Settings {
        client,
        plugins,
        scope,
        home,
    } = settings;
    let references = Arc::new(References::default());
    let view = Arc::new(View::new(KINDS));
    let (wake, woken) = Wake::new();
    let followers = Followers {
        client: client.clone(),
        scope: scope.clone(),
        view: view.clone(),
        references: references.clone(),
        wake,
    };
    let context = Arc::new(Context {
        client: client.clone(),
        plugins: plugins.into(),
        distributions: distributions::builtin(),
        references,
        view: view.clone(),
        contents: Contents::new(client.clone(), view, home),
        recent: Recent::default(),
        events: Events::new(client.clone(), std::env::var("POD_NAME").ok()),
    });
    let _watches = followers.start();
    let forgetting = context.clone();
    Controller::new(
        scope.api::<DeserializeGuard<Distribution>>(&client),
        watcher::Config::default(),
    )
    .with_config(controller::Config::default().concurrency(WORKERS))
    .reconcile_on(woken)
    .graceful_shutdown_on(shutdown)
    .run(reconcile, error_policy, context)
    .for_each(|outcome| {
        match outcome {
            Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
            Err(controller::Error::ObjectNotFound(resource)) => {
                let namespace = resource.namespace.as_deref().unwrap_or_default();
                forgetting.references.forget(namespace, &resource.name);
                forgetting.contents.forget_absent();
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "not reconciled")
            }
        }
        std::future::ready(())
    })
    .await;
}

//! The watches, and what wakes a resource.
//!
//! Secrets and ConfigMaps are watched as metadata only: their content is read when a resource needs
//! it, and is not kept.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::Api;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use llsd_api::{Distribution, KIND};
use llsd_plugin::Plugin;
use llsd_render::distributions;

use crate::context::Context;
use crate::reconcile::{error_policy, reconcile};
use crate::references::{References, Referent};

/// Resources that are reconciled at the same time.
const WORKERS: u16 = 4;

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
}

/// Runs until `shutdown` is done; reconciliations under way are finished first.
pub async fn run(settings: Settings, shutdown: impl Future<Output = ()> + Send + Sync + 'static) {
    let Settings {
        client,
        plugins,
        scope,
    } = settings;
    let references = Arc::new(References::default());
    let context = Arc::new(Context {
        client: client.clone(),
        plugins: plugins.into(),
        distributions: distributions::builtin(),
        references: references.clone(),
    });
    let (of_secrets, of_config_maps) = (references.clone(), references.clone());
    Controller::new(
        scope.api::<DeserializeGuard<Distribution>>(&client),
        watcher::Config::default(),
    )
    .with_config(controller::Config::default().concurrency(WORKERS))
    .owns(scope.api::<Deployment>(&client), watcher::Config::default())
    .owns(
        scope.api::<PartialObjectMeta<Service>>(&client),
        watcher::Config::default(),
    )
    .watches(
        scope.api::<PartialObjectMeta<Secret>>(&client),
        watcher::Config::default(),
        move |secret| referrers(&of_secrets, &secret, Referent::Secret(secret.name_any())),
    )
    .watches(
        scope.api::<PartialObjectMeta<ConfigMap>>(&client),
        watcher::Config::default(),
        move |map| {
            let owner = owner(&map);
            referrers(&of_config_maps, &map, Referent::ConfigMap(map.name_any()))
                .into_iter()
                .chain(owner)
                .collect::<Vec<_>>()
        },
    )
    .graceful_shutdown_on(shutdown)
    .run(reconcile, error_policy, context)
    .for_each(|outcome| {
        match outcome {
            Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
            Err(controller::Error::ObjectNotFound(resource)) => {
                references.forget(
                    resource.namespace.as_deref().unwrap_or_default(),
                    &resource.name,
                );
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "not reconciled")
            }
        }
        std::future::ready(())
    })
    .await;
}

impl Scope {
    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::Cluster => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

/// The resources that refer to an object.
fn referrers(
    references: &References,
    object: &impl ResourceExt,
    referent: Referent,
) -> Vec<ObjectRef<DeserializeGuard<Distribution>>> {
    let namespace = object.namespace().unwrap_or_default();
    let names = references.referrers(&namespace, &referent);
    names
        .into_iter()
        .map(|name| ObjectRef::new(&name).within(&namespace))
        .collect()
}

/// The resource that an object belongs to.
fn owner(object: &impl ResourceExt) -> Option<ObjectRef<DeserializeGuard<Distribution>>> {
    let owner = object
        .owner_references()
        .iter()
        .find(|owner| owner.kind == KIND)?;
    Some(ObjectRef::new(&owner.name).within(&object.namespace()?))
}

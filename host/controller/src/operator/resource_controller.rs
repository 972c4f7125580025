//! Reconciles every resource when this replica becomes the leader, and then each one that is triggered.

use std::future::Future;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use kube::ResourceExt;
use kube::runtime::controller::{self, Controller};

use crate::cache::{ResourceRef, ResourceStore};
use crate::reconcile::{Context, error_policy, reconcile};

/// Reconciles resources until `shutdown` completes.
pub(super) async fn reconcile_all(
    context: Arc<Context>,
    store: ResourceStore,
    mut triggered: BoxStream<'static, ResourceRef>,
    shutdown: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let plugin_changes = context.plugins.set.changes();
    let prefix_changes = context.plugins.proposals.prefix_changes();
    // Otherwise objects, plugins and settings that are not loaded yet would count as missing.
    let loaded = async {
        let (listed, ..) = futures::join!(
            store.wait_until_listed(),
            context.cache.complete(),
            context.plugins.restored(),
            context.settings.get(),
            context.revisions.load_all(&context.scope),
        );
        listed
    };
    tokio::select! {
        () = shutdown.clone() => return,
        // Every resource is requested below.
        () = discard(&mut triggered) => {}
        listed = loaded => if listed.is_err() {
            return;
        }
    }
    let all = store.all();
    let (unchanged, changed): (Vec<_>, Vec<_>) =
        all.iter().partition(|resource| resource.is_reported());
    for resource in changed.into_iter().chain(unchanged) {
        let namespace = resource.namespace().unwrap_or_default();
        context.trigger.request(&namespace, &resource.name_any());
    }
    // The watch triggers what is new or changed.
    Controller::for_stream(stream::pending(), store.for_controller())
        .reconcile_on(triggered)
        .reconcile_all_on(plugin_changes)
        .reconcile_all_on(prefix_changes)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, context.clone())
        .for_each(|outcome| {
            match outcome {
                Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
                Err(controller::Error::ObjectNotFound(resource)) => {
                    let namespace = resource.namespace.as_deref().unwrap_or_default();
                    context.forget(namespace, &resource.name);
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "failed to reconcile a resource");
                }
            }
            std::future::ready(())
        })
        .await;
}

/// Discards all items, and never completes.
pub(super) async fn discard(triggered: &mut BoxStream<'static, ResourceRef>) {
    while triggered.next().await.is_some() {}
    std::future::pending().await
}

//! Watches all resources and reconciles them.

use std::future::Future;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{self, Controller};
use kube::runtime::watcher::{self, Event, watcher};

use crate::cache::{
    Change, InProgress, PAGE_SIZE, ResourceRef, ResourceStore, ResourceWriter, Scope,
    WatchedResource,
};
use crate::reconcile::{Context, error_policy, reconcile};

/// The resources that are new or changed.
pub(super) type ResourceEvents = BoxStream<'static, Result<WatchedResource, watcher::Error>>;

/// Reconciles resources until `shutdown` completes.
pub(super) async fn reconcile_all(
    context: Arc<Context>,
    (store, resources): (ResourceStore, ResourceEvents),
    triggered: impl Stream<Item = ResourceRef> + Send + 'static,
    shutdown: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let plugin_changes = context.plugins.set.changes();
    let prefix_changes = context.plugins.proposals.prefix_changes();
    // Otherwise objects, plugins and settings that are not loaded yet would count as missing.
    let loaded = async {
        futures::join!(
            context.cache.complete(),
            context.plugins.restored(),
            context.settings.get(),
            context.revisions.load_all(&context.scope),
        );
    };
    tokio::select! {
        () = shutdown.clone() => return,
        () = loaded => {}
    }
    // A replica that was not the leader has listed them before.
    for resource in store.all() {
        let namespace = resource.namespace().unwrap_or_default();
        context.trigger.request(&namespace, &resource.name_any());
    }
    let reconciliations = Controller::for_stream(resources, store.for_controller())
        .reconcile_on(triggered)
        .reconcile_all_on(plugin_changes)
        .reconcile_all_on(prefix_changes)
        .graceful_shutdown_on(shutdown.clone())
        .run(reconcile, error_policy, context.clone())
        .for_each(|outcome| {
            match outcome {
                Ok((resource, _)) => tracing::debug!(%resource, "reconciled"),
                Err(controller::Error::ObjectNotFound(resource)) => {
                    let namespace = resource.namespace.as_deref().unwrap_or_default();
                    context.forget(namespace, &resource.name);
                }
                Err(controller::Error::QueueError(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::info!(error, "watch of resources failed, restarting it");
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "failed to reconcile a resource");
                }
            }
            std::future::ready(())
        });
    // A controller ignores its shutdown signal before its first list is complete.
    let shutdown_before_list = async {
        tokio::select! {
            _ = store.wait_until_listed() => std::future::pending().await,
            () = shutdown => {}
        }
    };
    tokio::select! {
        () = reconciliations => {}
        () = shutdown_before_list => {}
    }
}

/// Watches the resources, and drops what is stored for deleted ones.
pub(super) fn watch_resources(
    context: &Arc<Context>,
    scope: &Scope,
    writer: ResourceWriter,
) -> impl Stream<Item = Result<WatchedResource, watcher::Error>> + Send + 'static + use<> {
    let (noticing, filtering) = (context.clone(), context.in_progress.clone());
    let api = scope.api::<WatchedResource>(&context.client);
    let events = watcher(api, watcher::Config::default().page_size(PAGE_SIZE)).default_backoff();
    writer
        .write(events)
        // A controller does not report deletions.
        .inspect(move |event| {
            if let Ok(Event::InitApply(listed)) = event {
                let uid = listed.uid().unwrap_or_default();
                noticing.revisions.list_resource(uid);
            }
            if let Ok(Event::Apply(changed)) = event
                && !changed.is_reported()
            {
                let namespace = changed.namespace().unwrap_or_default();
                noticing.write_pace.note_change(&namespace);
            }
            if let Ok(Event::Delete(deleted)) = event {
                let namespace = deleted.namespace().unwrap_or_default();
                noticing.forget(&namespace, &deleted.name_any());
                let uid = deleted.uid().unwrap_or_default();
                noticing.revisions.forget_uid(&uid);
            }
        })
        .filter(move |event| {
            let is_due = match event {
                Ok(Event::Apply(changed)) => is_due(&filtering, changed),
                _ => true,
            };
            std::future::ready(is_due)
        })
        .applied_objects()
}

/// Whether a change of a resource is a reason to reconcile it now. A status of our own is not.
fn is_due(in_progress: &InProgress, changed: &WatchedResource) -> bool {
    let resource = (changed.namespace().unwrap_or_default(), changed.name_any());
    let change = Change::Resource {
        uid: changed.uid().unwrap_or_default(),
        version: changed.resource_version().unwrap_or_default(),
    };
    in_progress.is_due(&resource, change)
}

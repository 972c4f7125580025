//! Watches the resources: triggers those that are new or changed, and drops what is stored for deleted ones.

use std::sync::Arc;

use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use tokio::sync::watch;

use crate::cache::{Change, PAGE_SIZE, ResourceChange, ResourceWriter, WatchedResource};
use crate::reconcile::Context;

/// Watches the resources forever, also on a replica that is not the leader.
pub(super) async fn watch_resources(
    context: Arc<Context>,
    writer: ResourceWriter,
    is_leader: watch::Receiver<bool>,
) {
    let api = context.scope.api::<WatchedResource>(&context.client);
    let events = watcher(api, watcher::Config::default().page_size(PAGE_SIZE)).default_backoff();
    let mut changes = std::pin::pin!(writer.write(events));
    while let Some(change) = changes.next().await {
        match change {
            Ok(change) => handle(&context, change, *is_leader.borrow()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::info!(error, "watch of resources failed, restarting it");
            }
        }
    }
}

fn handle(context: &Context, change: ResourceChange, is_leader: bool) {
    let resource = match &change {
        ResourceChange::Listed(resource)
        | ResourceChange::Applied(resource)
        | ResourceChange::Deleted(resource) => resource,
    };
    let name = (
        resource.namespace().unwrap_or_default(),
        resource.name_any(),
    );
    let uid = resource.uid().unwrap_or_default();
    if let ResourceChange::Deleted(_) = change {
        context.forget(&name.0, &name.1);
        context.revisions.forget_uid(&uid);
        return;
    }
    let is_live = matches!(change, ResourceChange::Applied(_));
    if is_live && !resource.is_reported() {
        context.write_pace.note_change(&name.0);
    }
    if !is_live || !is_leader {
        // Another replica, or an earlier process, may have handled it.
        context.revisions.list_resource(uid.clone());
    }
    let version = resource.resource_version().unwrap_or_default();
    // A status of our own is no reason to reconcile.
    if context
        .in_progress
        .is_due(&name, Change::Resource { uid, version })
    {
        context.trigger.request(&name.0, &name.1);
    }
}

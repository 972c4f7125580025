//! All resources, as the watch of the resource controller delivers them.
//!
//! kube's `Store::wait_until_ready` wakes only the task that called it last. The resource controller is
//! that task; every other one waits here.

use std::sync::Arc;

use futures::Stream;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;

use super::watched_resource::WatchedResource;

/// All resources.
#[derive(Clone)]
pub(crate) struct ResourceStore {
    store: Store<WatchedResource>,
    is_listed: watch::Receiver<bool>,
}

/// Fills a [`ResourceStore`].
pub(crate) struct ResourceWriter {
    writer: Writer<WatchedResource>,
    is_listed: watch::Sender<bool>,
}

/// The writer was dropped before the first list was complete: the operator is shutting down.
#[derive(Debug)]
pub(crate) struct NotListed;

impl ResourceStore {
    /// Creates an empty store.
    pub(crate) fn new() -> (Self, ResourceWriter) {
        let (store, writer) = reflector::store();
        let (sender, is_listed) = watch::channel(false);
        let writer = ResourceWriter {
            writer,
            is_listed: sender,
        };
        (Self { store, is_listed }, writer)
    }

    /// Waits until the first list is complete.
    pub(crate) async fn wait_until_listed(&self) -> Result<(), NotListed> {
        let mut is_listed = self.is_listed.clone();
        let listed = is_listed.wait_for(|is_listed| *is_listed).await;
        listed.map(drop).map_err(|_| NotListed)
    }

    /// All resources that were delivered so far.
    pub(crate) fn all(&self) -> Vec<Arc<WatchedResource>> {
        self.store.state()
    }

    /// The number of resources that were delivered so far.
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// The bytes of all resources.
    pub(crate) fn bytes(&self) -> usize {
        self.all().iter().map(|resource| resource.bytes()).sum()
    }

    /// The store of the resource controller.
    pub(crate) fn for_controller(&self) -> Store<WatchedResource> {
        self.store.clone()
    }
}

impl ResourceWriter {
    /// Stores the resources of the events that pass.
    pub(crate) fn write(
        self,
        events: impl Stream<Item = Result<Event<WatchedResource>, watcher::Error>>,
    ) -> impl Stream<Item = Result<Event<WatchedResource>, watcher::Error>> {
        let Self { writer, is_listed } = self;
        futures::StreamExt::inspect(events.reflect(writer), move |event| {
            if let Ok(Event::InitDone) = event {
                is_listed.send_replace(true);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn every_task_that_waits_for_the_first_list_continues() {
        let (store, writer) = ResourceStore::new();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.wait_until_listed().await })
            })
            .collect();
        // Each task waits before the list is complete.
        tokio::task::yield_now().await;
        let list = [Ok(Event::Init), Ok(Event::InitDone)];
        writer.write(stream::iter(list)).count().await;
        for one in waiting {
            let listed = tokio::time::timeout(DEADLINE, one).await;
            assert!(matches!(listed, Ok(Ok(Ok(())))), "{listed:?}");
        }
        assert!(
            store.wait_until_listed().await.is_ok(),
            "also after the watch has ended"
        );
    }

    #[tokio::test]
    async fn waiting_ends_if_no_list_will_come() {
        let (store, writer) = ResourceStore::new();
        drop(writer);
        assert!(store.wait_until_listed().await.is_err());
    }
}

//! All resources, as their watch delivers them.
//!
//! kube's `Store::wait_until_ready` wakes only the task that called it last, so tasks wait here.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::ResourceExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
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
    /// The resources of the list in progress that are not stored in their version.
    new: Vec<ObjectRef<WatchedResource>>,
}

/// A change that is stored.
#[derive(Debug)]
pub(crate) enum ResourceChange {
    /// A list contains a resource that is new, or that changed since it was stored.
    Listed(Arc<WatchedResource>),
    /// A resource was created or changed.
    Applied(Arc<WatchedResource>),
    /// A resource was deleted, or is missing in a list.
    Deleted(Arc<WatchedResource>),
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
            new: Vec::new(),
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
    /// Stores the resources of the events that pass, and returns what changed. Whoever receives a change
    /// finds it in the store: what a list contains comes when the list is complete, and without the
    /// resources that did not change.
    pub(crate) fn write(
        mut self,
        events: impl Stream<Item = Result<Event<WatchedResource>, watcher::Error>>,
    ) -> impl Stream<Item = Result<ResourceChange, watcher::Error>> {
        events.flat_map(move |event| {
            stream::iter(match event {
                Ok(event) => self.apply(&event).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        })
    }

    /// Stores what an event delivers.
    fn apply(&mut self, event: &Event<WatchedResource>) -> Vec<ResourceChange> {
        let store = self.writer.as_reader();
        let find = |one: &WatchedResource| store.get(&ObjectRef::from_obj(one));
        let mut write = || self.writer.apply_watcher_event(event);
        match event {
            Event::Init => {
                write();
                self.new.clear();
                Vec::new()
            }
            Event::InitApply(listed) => {
                write();
                if !find(listed).is_some_and(|stored| is_same(&stored, listed)) {
                    self.new.push(ObjectRef::from_obj(listed));
                }
                Vec::new()
            }
            Event::InitDone => {
                let before = store.state();
                write();
                self.is_listed.send_replace(true);
                let is_gone =
                    |one: &Arc<_>| find(one).is_none_or(|stored| stored.uid() != one.uid());
                let gone = before.into_iter().filter(is_gone);
                let new = std::mem::take(&mut self.new);
                let new = new.iter().filter_map(|name| store.get(name));
                gone.map(ResourceChange::Deleted)
                    .chain(new.map(ResourceChange::Listed))
                    .collect()
            }
            Event::Apply(changed) => {
                write();
                Vec::from_iter(find(changed).map(ResourceChange::Applied))
            }
            Event::Delete(deleted) => {
                let before = find(deleted);
                write();
                Vec::from_iter(before.map(ResourceChange::Deleted))
            }
        }
    }
}

/// Whether both are the same version of the same resource.
fn is_same(one: &WatchedResource, other: &WatchedResource) -> bool {
    one.uid() == other.uid() && one.resource_version() == other.resource_version()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::Resource;
    use serde_json::json;

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

    fn resource(name: &str, version: &str) -> WatchedResource {
        let resource = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version},
            "spec": {},
        });
        serde_json::from_value(resource).unwrap()
    }

    fn list<const N: usize>(versions: [(&str, &str); N]) -> Vec<Event<WatchedResource>> {
        let listed = versions.map(|(name, version)| Event::InitApply(resource(name, version)));
        let events = [Event::Init].into_iter().chain(listed);
        events.chain([Event::InitDone]).collect()
    }

    /// Each change, as the one who receives it finds it in the store.
    async fn changes(events: Vec<Event<WatchedResource>>) -> Vec<(String, &'static str, String)> {
        let (store, writer) = ResourceStore::new();
        let changes = writer.write(stream::iter(events.into_iter().map(Ok)));
        let changes = changes.map(|change| {
            let (kind, resource) = match change.unwrap() {
                ResourceChange::Listed(resource) => ("listed", resource),
                ResourceChange::Applied(resource) => ("applied", resource),
                ResourceChange::Deleted(resource) => ("deleted", resource),
            };
            let stored = store.store.get(&ObjectRef::from_obj(&*resource));
            let version = stored.and_then(|stored| stored.resource_version());
            (resource.name_any(), kind, version.unwrap_or_default())
        });
        changes.collect().await
    }

    fn change(name: &str, kind: &'static str, version: &str) -> (String, &'static str, String) {
        (name.to_owned(), kind, version.to_owned())
    }

    #[tokio::test]
    async fn whoever_receives_a_change_finds_it_in_the_store() {
        let mut events = list([("a", "1"), ("b", "1")]);
        events.push(Event::Apply(resource("c", "2")));
        events.push(Event::Delete(resource("a", "3")));
        let expected = [
            change("a", "listed", "1"),
            change("b", "listed", "1"),
            change("c", "applied", "2"),
            change("a", "deleted", ""),
        ];
        assert_eq!(changes(events).await, expected);
    }

    /// Otherwise a change during an interrupted watch would have been reconciled with the old version.
    #[tokio::test]
    async fn a_list_after_an_interruption_says_what_changed_once_that_is_stored() {
        let mut events = list([("a", "1"), ("b", "1"), ("c", "1")]);
        events.extend(list([("a", "1"), ("b", "2"), ("d", "1")]));
        let expected = [
            change("c", "deleted", ""),
            change("b", "listed", "2"),
            change("d", "listed", "1"),
        ];
        let first = 3;
        assert_eq!(changes(events).await[first..], expected);
    }

    #[tokio::test]
    async fn a_list_that_was_interrupted_changes_nothing() {
        let mut events = list([("a", "1")]);
        events.extend([Event::Init, Event::InitApply(resource("b", "1"))]);
        events.extend(list([("a", "1")]));
        assert_eq!(changes(events).await, [change("a", "listed", "1")]);
    }

    #[tokio::test]
    async fn a_resource_that_replaced_another_one_is_new() {
        let mut replaced = resource("a", "2");
        replaced.meta_mut().uid = Some("other".to_owned());
        let mut events = list([("a", "1")]);
        events.extend([Event::Init, Event::InitApply(replaced), Event::InitDone]);
        let expected = [
            change("a", "listed", "1"),
            change("a", "deleted", "2"),
            change("a", "listed", "2"),
        ];
        assert_eq!(changes(events).await, expected);
    }

    #[tokio::test]
    async fn waiting_ends_if_no_list_will_come() {
        let (store, writer) = ResourceStore::new();
        drop(writer);
        assert!(store.wait_until_listed().await.is_err());
    }
}

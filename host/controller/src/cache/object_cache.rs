//! The newest known version of each watched object of one kind.
//!
//! In: the events of a watch, and the API server's responses to our own writes, which are newer than
//! what the watch has delivered so far. Out: objects by name, and which of them changed. Without the
//! second source, a reconciliation right after a write would not see the written object and would
//! write it again.

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Objects of one kind, by namespace and name.
pub(crate) struct ObjectCache {
    state: Mutex<State>,
    is_complete: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    objects: HashMap<String, HashMap<String, Entry>>,
    /// The newest resource version that the watch has delivered.
    observed_version: u64,
    /// Counts the lists that the watch started with. An object that the current list does not
    /// contain was deleted.
    list: u64,
}

struct Entry {
    object: Arc<DynamicObject>,
    /// The last list that contained the object.
    list: u64,
    /// Whether this version is the response to one of our own writes.
    is_written: bool,
}

impl Default for ObjectCache {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            is_complete: watch::Sender::new(false),
        }
    }
}

impl ObjectCache {
    /// Applies an event of the watch and returns the objects that changed.
    pub(crate) fn observe(&self, event: Event<DynamicObject>) -> Vec<Arc<DynamicObject>> {
        let mut state = self.state.lock();
        match event {
            Event::Init => {
                state.list += 1;
                Vec::new()
            }
            Event::Apply(object) | Event::InitApply(object) => {
                state.observe_version(&object);
                state.insert(object).into_iter().collect()
            }
            Event::Delete(object) => {
                state.observe_version(&object);
                state.remove(&object).into_iter().collect()
            }
            Event::InitDone => {
                let removed = state.remove_unconfirmed();
                drop(state);
                self.is_complete.send_replace(true);
                removed
            }
        }
    }

    /// Stores the API server's response to one of our own writes.
    pub(crate) fn record(&self, written: DynamicObject) {
        let mut state = self.state.lock();
        let (namespace, name) = (written.namespace().unwrap_or_default(), written.name_any());
        let written_version = version(&written);
        // Otherwise the watch has already delivered this version, and possibly a newer one.
        if written_version > state.observed_version {
            state.insert(written);
        }
        if let Some(entry) = state.entry(&namespace, &name) {
            entry.is_written = version(&entry.object) == written_version;
        }
    }

    /// Removes an object that we deleted.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        if let Some(objects) = self.state.lock().objects.get_mut(namespace) {
            objects.remove(name);
        }
    }

    /// Whether an object is unchanged since we wrote it.
    pub(crate) fn is_as_written(&self, namespace: &str, name: &str) -> bool {
        self.state
            .lock()
            .entry(namespace, name)
            .is_some_and(|entry| entry.is_written)
    }

    /// The newest known version of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let state = self.state.lock();
        let entry = state.objects.get(namespace)?.get(name)?;
        Some(entry.object.clone())
    }

    /// All objects of a namespace that `matches` accepts.
    pub(crate) fn find(
        &self,
        namespace: &str,
        matches: impl Fn(&DynamicObject) -> bool,
    ) -> Vec<Arc<DynamicObject>> {
        let state = self.state.lock();
        let all = state.objects.get(namespace).into_iter().flatten();
        all.map(|(_, entry)| &entry.object)
            .filter(|object| matches(object))
            .cloned()
            .collect()
    }

    /// All objects of all namespaces.
    pub(crate) fn all(&self) -> Vec<Arc<DynamicObject>> {
        let state = self.state.lock();
        let all = state.objects.values().flat_map(HashMap::values);
        all.map(|entry| entry.object.clone()).collect()
    }

    /// Waits until the first list is complete.
    pub(crate) async fn complete(&self) {
        // The sender lives as long as the cache, so waiting cannot fail.
        let _ = self
            .is_complete
            .subscribe()
            .wait_for(|complete| *complete)
            .await;
    }

    /// Whether the first list is complete.
    pub(crate) fn is_complete(&self) -> bool {
        *self.is_complete.borrow()
    }
}

impl State {
    fn observe_version(&mut self, object: &DynamicObject) {
        self.observed_version = self.observed_version.max(version(object));
    }

    fn entry(&mut self, namespace: &str, name: &str) -> Option<&mut Entry> {
        self.objects.get_mut(namespace)?.get_mut(name)
    }

    /// Stores an object unless a newer version is known. Returns it if it changed.
    fn insert(&mut self, object: DynamicObject) -> Option<Arc<DynamicObject>> {
        let list = self.list;
        let namespace = self
            .objects
            .entry(object.namespace().unwrap_or_default())
            .or_default();
        let Some(entry) = namespace.get_mut(&object.name_any()) else {
            let name = object.name_any();
            let object = Arc::new(object);
            let entry = Entry {
                object: object.clone(),
                list,
                is_written: false,
            };
            namespace.insert(name, entry);
            return Some(object);
        };
        entry.list = list;
        if version(&object) < version(&entry.object) {
            return None;
        }
        let is_same = is_same(&entry.object, &object);
        entry.is_written &= version(&object) == version(&entry.object);
        entry.object = Arc::new(object);
        (!is_same).then(|| entry.object.clone())
    }

    fn remove(&mut self, object: &DynamicObject) -> Option<Arc<DynamicObject>> {
        let namespace = self
            .objects
            .get_mut(&object.namespace().unwrap_or_default())?;
        let name = object.name_any();
        // The object may have been created again since.
        if version(&namespace.get(&name)?.object) > version(object) {
            return None;
        }
        namespace.remove(&name).map(|entry| entry.object)
    }

    fn remove_unconfirmed(&mut self) -> Vec<Arc<DynamicObject>> {
        let list = self.list;
        let mut removed = Vec::new();
        for objects in self.objects.values_mut() {
            objects.retain(|_, entry| {
                let is_confirmed = entry.list == list;
                if !is_confirmed {
                    removed.push(entry.object.clone());
                }
                is_confirmed
            });
        }
        self.objects.retain(|_, objects| !objects.is_empty());
        removed
    }
}

/// Whether two versions of an object have equal content. For an object that is watched without its
/// content, every new resource version counts as a change.
fn is_same(old: &DynamicObject, new: &DynamicObject) -> bool {
    if new.data.is_null() {
        return old.metadata.resource_version == new.metadata.resource_version;
    }
    let mut metadata = new.metadata.clone();
    metadata.resource_version = old.metadata.resource_version.clone();
    metadata == old.metadata && new.data == old.data
}

/// The resource version as a number. Resource versions of one kind increase with every write; an
/// unparsable one counts as the oldest.
pub(crate) fn version(object: &DynamicObject) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u64, size: u64) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "resourceVersion": version.to_string()},
            "spec": {"size": size},
        }))
        .expect("an object")
    }

    fn size(cache: &ObjectCache, name: &str) -> Option<u64> {
        cache.get("ns", name)?.data["spec"]["size"].as_u64()
    }

    #[test]
    fn a_written_object_is_visible_before_the_watch_delivers_it_and_is_then_no_change() {
        let cache = ObjectCache::default();
        cache.observe(Event::Apply(object("a", 1, 1)));
        cache.record(object("a", 5, 2));
        assert_eq!(size(&cache, "a"), Some(2));
        assert!(cache.observe(Event::Apply(object("a", 3, 1))).is_empty());
        assert_eq!(size(&cache, "a"), Some(2));
        assert!(cache.observe(Event::Apply(object("a", 5, 2))).is_empty());
        assert!(cache.is_as_written("ns", "a"));
        assert_eq!(cache.observe(Event::Apply(object("a", 6, 1))).len(), 1);
        assert!(!cache.is_as_written("ns", "a"));
    }

    #[test]
    fn a_late_response_does_not_restore_a_deleted_object() {
        let cache = ObjectCache::default();
        cache.observe(Event::Apply(object("a", 5, 1)));
        assert_eq!(cache.observe(Event::Delete(object("a", 7, 1))).len(), 1);
        cache.record(object("a", 5, 1));
        assert_eq!(size(&cache, "a"), None);
    }

    #[test]
    fn a_new_list_removes_missing_objects_but_not_those_written_meanwhile() {
        let cache = ObjectCache::default();
        for name in ["a", "b"] {
            cache.observe(Event::Apply(object(name, 1, 1)));
        }
        cache.observe(Event::Init);
        assert!(
            cache
                .observe(Event::InitApply(object("a", 1, 1)))
                .is_empty()
        );
        cache.record(object("c", 9, 1));
        let removed = cache.observe(Event::InitDone);
        assert_eq!(
            removed.iter().map(|one| one.name_any()).collect::<Vec<_>>(),
            ["b"]
        );
        assert_eq!(size(&cache, "a").and(size(&cache, "c")), Some(1));
        assert!(cache.is_complete());
    }

    #[test]
    fn without_content_a_new_version_is_a_change() {
        let bare = |version: &str| {
            let mut object = DynamicObject {
                types: None,
                metadata: object("a", 1, 1).metadata,
                data: serde_json::Value::Null,
            };
            object.metadata.resource_version = Some(version.to_owned());
            object
        };
        let cache = ObjectCache::default();
        cache.observe(Event::Apply(bare("1")));
        assert!(cache.observe(Event::Apply(bare("1"))).is_empty());
        assert_eq!(cache.observe(Event::Apply(bare("2"))).len(), 1);
    }
}

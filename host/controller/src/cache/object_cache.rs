//! The newest known version of each watched object of one kind.
//!
//! In: the events of a watch, and the API server's responses to our own writes, which are newer than
//! what the watch has delivered so far. Out: objects by name, and which of them changed. Without the
//! second source, a reconciliation right after a write would not see the written object and would
//! write it again.

use std::collections::{BTreeSet, HashMap};

use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use kube::runtime::watcher::Event;
use llsd_api::labels;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::packed::{Packed, Packer};

/// Objects of one kind, by namespace and name.
pub(crate) struct ObjectCache {
    state: Mutex<State>,
    is_complete: watch::Sender<bool>,
}

struct State {
    namespaces: HashMap<String, Namespace>,
    /// The group of an object, for lookups of several objects.
    group: Group,
    packer: Packer<Content>,
    /// The newest resource version that the watch has delivered.
    observed_version: u64,
    /// Counts the lists that the watch started with. An object that the current list does not
    /// contain was deleted.
    list: u64,
}

/// An object without its type and resource version.
type Content = (ObjectMeta, Value);
/// The group of an object.
type Group = fn(&DynamicObject) -> Option<&str>;

#[derive(Default)]
struct Namespace {
    objects: HashMap<Box<str>, Entry>,
    /// Groups, with the names of their objects.
    groups: BTreeSet<(Box<str>, Box<str>)>,
}

struct Entry {
    version: u64,
    content: Packed,
    /// Whether the object is watched without its content.
    is_metadata_only: bool,
    group: Option<Box<str>>,
    /// The last list that contained the object.
    list: u64,
    /// Whether this version is the response to one of our own writes.
    is_written: bool,
}

impl ObjectCache {
    /// An empty cache whose objects are grouped by the resource that they belong to.
    pub(super) fn by_resource() -> Self {
        Self::grouped_by(|object| object.labels().get(labels::INSTANCE).map(String::as_str))
    }

    /// An empty cache.
    pub(super) fn grouped_by(group: Group) -> Self {
        Self {
            state: Mutex::new(State {
                namespaces: HashMap::new(),
                group,
                packer: Packer::new(),
                observed_version: 0,
                list: 0,
            }),
            is_complete: watch::Sender::new(false),
        }
    }

    /// Applies an event of the watch and returns the objects that changed.
    pub(crate) fn observe(&self, event: Event<DynamicObject>) -> Vec<DynamicObject> {
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
                state.remove(object).into_iter().collect()
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
        if let Some(entry) = state.entry_mut(&namespace, &name) {
            entry.is_written = entry.version == written_version;
        }
    }

    /// Removes an object that we deleted.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        if let Some(objects) = self.state.lock().namespaces.get_mut(namespace) {
            objects.remove(name);
        }
    }

    /// Whether an object is unchanged since we wrote it.
    pub(crate) fn is_as_written(&self, namespace: &str, name: &str) -> bool {
        let state = self.state.lock();
        let entry = state.entry(namespace, name);
        entry.is_some_and(|entry| entry.is_written)
    }

    /// Whether an object exists.
    pub(crate) fn contains(&self, namespace: &str, name: &str) -> bool {
        self.state.lock().entry(namespace, name).is_some()
    }

    /// The resource version of an object.
    pub(crate) fn resource_version(&self, namespace: &str, name: &str) -> Option<u64> {
        Some(self.state.lock().entry(namespace, name)?.version)
    }

    /// The newest known version of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<DynamicObject> {
        let state = self.state.lock();
        state.unpack(state.entry(namespace, name)?)
    }

    /// All objects of one group in a namespace.
    pub(crate) fn group(&self, namespace: &str, group: &str) -> Vec<DynamicObject> {
        let state = self.state.lock();
        let Some(namespace) = state.namespaces.get(namespace) else {
            return Vec::new();
        };
        let first = (Box::from(group), Box::default());
        let names = namespace.groups.range(first..);
        let names = names.take_while(|(other, _)| **other == *group);
        let entries = names.filter_map(|(_, name)| namespace.objects.get(name));
        entries.filter_map(|entry| state.unpack(entry)).collect()
    }

    /// What `select` takes of the objects that are in a group, in all namespaces.
    pub(crate) fn select_grouped<T>(
        &self,
        mut select: impl FnMut(DynamicObject) -> Option<T>,
    ) -> Vec<T> {
        let state = self.state.lock();
        let all = state.namespaces.values().flat_map(|namespace| {
            let names = namespace.groups.iter();
            names.filter_map(|(_, name)| namespace.objects.get(name))
        });
        all.filter_map(|entry| select(state.unpack(entry)?))
            .collect()
    }

    /// What `select` takes of all objects of all namespaces.
    pub(crate) fn select<T>(&self, mut select: impl FnMut(DynamicObject) -> Option<T>) -> Vec<T> {
        let state = self.state.lock();
        let namespaces = state.namespaces.values();
        let all = namespaces.flat_map(|namespace| namespace.objects.values());
        all.filter_map(|entry| select(state.unpack(entry)?))
            .collect()
    }

    /// The bytes of all objects.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state.lock();
        let namespaces = state.namespaces.values();
        let all = namespaces.flat_map(|namespace| namespace.objects.values());
        all.map(|entry| entry.content.len()).sum()
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

    fn entry(&self, namespace: &str, name: &str) -> Option<&Entry> {
        self.namespaces.get(namespace)?.objects.get(name)
    }

    fn entry_mut(&mut self, namespace: &str, name: &str) -> Option<&mut Entry> {
        self.namespaces.get_mut(namespace)?.objects.get_mut(name)
    }

    fn unpack(&self, entry: &Entry) -> Option<DynamicObject> {
        unpack(&self.packer, entry)
    }

    /// Stores an object unless this or a newer version is known. Returns it if it changed.
    fn insert(&mut self, object: DynamicObject) -> Option<DynamicObject> {
        let (list, group) = (self.list, (self.group)(&object).map(Box::from));
        let namespace = self
            .namespaces
            .entry(object.namespace().unwrap_or_default())
            .or_default();
        let name = object.name_any();
        let version = version(&object);
        let known = namespace.objects.get_mut(name.as_str());
        if let Some(known) = known {
            known.list = list;
            // Most objects that the watch delivers are those that we wrote.
            if version <= known.version {
                return None;
            }
        }
        let (object, content) = pack(&self.packer, object);
        let entry = Entry {
            version,
            content,
            is_metadata_only: object.data.is_null(),
            group,
            list,
            is_written: false,
        };
        let known = namespace.remove(&name);
        let is_same = known.is_some_and(|known| entry.is_same(&known));
        namespace.insert(name.into(), entry);
        (!is_same).then_some(object)
    }

    fn remove(&mut self, object: DynamicObject) -> Option<DynamicObject> {
        let namespace = object.namespace().unwrap_or_default();
        let namespace = self.namespaces.get_mut(&namespace)?;
        let name = object.name_any();
        // The object may have been created again since.
        if namespace.objects.get(name.as_str())?.version > version(&object) {
            return None;
        }
        namespace.remove(&name).map(|_| object)
    }

    fn remove_unconfirmed(&mut self) -> Vec<DynamicObject> {
        let list = self.list;
        let mut removed = Vec::new();
        for namespace in self.namespaces.values_mut() {
            let objects = namespace.objects.iter();
            let unconfirmed = objects.filter(|(_, entry)| entry.list != list);
            let names: Vec<_> = unconfirmed.map(|(name, _)| name.clone()).collect();
            let entries = names.iter().filter_map(|name| namespace.remove(name));
            removed.extend(entries.filter_map(|entry| unpack(&self.packer, &entry)));
        }
        self.namespaces
            .retain(|_, namespace| !namespace.objects.is_empty());
        removed
    }
}

impl Namespace {
    fn insert(&mut self, name: Box<str>, entry: Entry) {
        if let Some(group) = &entry.group {
            self.groups.insert((group.clone(), name.clone()));
        }
        self.objects.insert(name, entry);
    }

    fn remove(&mut self, name: &str) -> Option<Entry> {
        let mut entry = self.objects.remove(name)?;
        if let Some(group) = entry.group.take() {
            self.groups.remove(&(group, name.into()));
        }
        Some(entry)
    }
}

impl Entry {
    /// Whether two versions of an object have equal content. For an object that is watched without its
    /// content, every new resource version counts as a change.
    fn is_same(&self, other: &Self) -> bool {
        if self.is_metadata_only {
            return self.version == other.version;
        }
        self.content == other.content
    }
}

fn pack(packer: &Packer<Content>, mut object: DynamicObject) -> (DynamicObject, Packed) {
    let resource_version = object.metadata.resource_version.take();
    let content = (object.metadata, object.data);
    let packed = packer.pack(&content);
    (object.metadata, object.data) = content;
    object.metadata.resource_version = resource_version;
    (object, packed)
}

fn unpack(packer: &Packer<Content>, entry: &Entry) -> Option<DynamicObject> {
    let (mut metadata, data) = packer.unpack(&entry.content)?;
    metadata.resource_version = Some(entry.version.to_string());
    Some(DynamicObject {
        types: None,
        metadata,
        data,
    })
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
        let cache = ObjectCache::by_resource();
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
        let cache = ObjectCache::by_resource();
        cache.observe(Event::Apply(object("a", 5, 1)));
        assert_eq!(cache.observe(Event::Delete(object("a", 7, 1))).len(), 1);
        cache.record(object("a", 5, 1));
        assert_eq!(size(&cache, "a"), None);
    }

    #[test]
    fn a_new_list_removes_missing_objects_but_not_those_written_meanwhile() {
        let cache = ObjectCache::by_resource();
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
    fn objects_are_found_by_the_resource_that_they_belong_to() {
        let cache = ObjectCache::by_resource();
        let labelled = |name: &str, version, resource: &str| {
            let mut object = object(name, version, 1);
            object
                .labels_mut()
                .insert(labels::INSTANCE.into(), resource.into());
            object
        };
        let names = |resource: &str| -> Vec<_> {
            let found = cache.group("ns", resource);
            found.iter().map(ResourceExt::name_any).collect()
        };
        for (name, resource) in [("a-1", "a"), ("a-2", "a"), ("ab-1", "ab")] {
            cache.observe(Event::Apply(labelled(name, 1, resource)));
        }
        cache.observe(Event::Apply(object("other", 1, 1)));
        assert_eq!(names("a"), ["a-1", "a-2"]);
        cache.observe(Event::Apply(labelled("a-1", 2, "b")));
        cache.observe(Event::Delete(labelled("ab-1", 2, "ab")));
        assert_eq!(names("a"), ["a-2"]);
        assert_eq!(names("b"), ["a-1"]);
        assert!(names("ab").is_empty());
        assert_eq!(cache.select_grouped(Some).len(), 2);
        assert_eq!(cache.select(Some).len(), 3);
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
        let cache = ObjectCache::by_resource();
        cache.observe(Event::Apply(bare("1")));
        assert!(cache.observe(Event::Apply(bare("1"))).is_empty());
        assert_eq!(cache.observe(Event::Apply(bare("2"))).len(), 1);
    }
}

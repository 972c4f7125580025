//! The newest version of each watched object of one kind.
//!
//! In: the events of a watch, and the answers to our own writes, which are newer than what the watch
//! has told so far. Out: objects by name, and which of them changed. Without the second source a pass
//! right after a write would not see what was just written, and would write it again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

/// Objects of one kind, by namespace and name.
pub(crate) struct Cache {
    known: Mutex<Known>,
    is_complete: watch::Sender<bool>,
}

#[derive(Default)]
struct Known {
    objects: HashMap<String, HashMap<String, Entry>>,
    /// The newest version that the watch has told of.
    heard: u64,
    /// Counts the lists that the watch began with. What no entry of the current list confirms is gone.
    round: u64,
}

struct Entry {
    object: Arc<DynamicObject>,
    round: u64,
    /// Whether this version is the answer to a write of ours.
    is_written: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            is_complete: watch::Sender::new(false),
        }
    }
}

impl Cache {
    /// Takes an event of the watch, and gives the objects that are other than before.
    pub(crate) fn observe(&self, event: Event<DynamicObject>) -> Vec<Arc<DynamicObject>> {
        let mut known = self.lock();
        match event {
            Event::Init => {
                known.round += 1;
                Vec::new()
            }
            Event::Apply(object) | Event::InitApply(object) => {
                known.hear(&object);
                known.insert(object).into_iter().collect()
            }
            Event::Delete(object) => {
                known.hear(&object);
                known.remove(&object).into_iter().collect()
            }
            Event::InitDone => {
                let gone = known.remove_unconfirmed();
                drop(known);
                self.is_complete.send_replace(true);
                gone
            }
        }
    }

    /// Takes what the API server answered to a write of ours.
    pub(crate) fn record(&self, written: DynamicObject) {
        let mut known = self.lock();
        let (namespace, name) = (written.namespace().unwrap_or_default(), written.name_any());
        let written_version = version(&written);
        // Otherwise the watch has told of it already, and maybe of what came after it.
        if written_version > known.heard {
            known.insert(written);
        }
        if let Some(entry) = known.entry(&namespace, &name) {
            entry.is_written = version(&entry.object) == written_version;
        }
    }

    /// Takes that an object was deleted by us.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        if let Some(objects) = self.lock().objects.get_mut(namespace) {
            objects.remove(name);
        }
    }

    /// Whether nobody has touched an object since we wrote it.
    pub(crate) fn is_as_written(&self, namespace: &str, name: &str) -> bool {
        self.lock()
            .entry(namespace, name)
            .is_some_and(|entry| entry.is_written)
    }

    /// The newest version of an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let known = self.lock();
        let entry = known.objects.get(namespace)?.get(name)?;
        Some(entry.object.clone())
    }

    /// All objects of a namespace for which `holds` is true.
    pub(crate) fn find(
        &self,
        namespace: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> Vec<Arc<DynamicObject>> {
        let known = self.lock();
        let all = known.objects.get(namespace).into_iter().flatten();
        all.map(|(_, entry)| &entry.object)
            .filter(|object| holds(object))
            .cloned()
            .collect()
    }

    /// All objects of all namespaces.
    pub(crate) fn all(&self) -> Vec<Arc<DynamicObject>> {
        let known = self.lock();
        let all = known.objects.values().flat_map(HashMap::values);
        all.map(|entry| entry.object.clone()).collect()
    }

    /// Waits until the first list is here.
    pub(crate) async fn complete(&self) {
        // The sender lives as long as the cache, so waiting cannot fail.
        let _ = self
            .is_complete
            .subscribe()
            .wait_for(|complete| *complete)
            .await;
    }

    /// Whether the first list is here.
    pub(crate) fn is_complete(&self) -> bool {
        *self.is_complete.borrow()
    }

    /// No reader or writer leaves it half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn hear(&mut self, object: &DynamicObject) {
        self.heard = self.heard.max(version(object));
    }

    fn entry(&mut self, namespace: &str, name: &str) -> Option<&mut Entry> {
        self.objects.get_mut(namespace)?.get_mut(name)
    }

    /// Keeps an object, unless a newer version is known, and gives it if it is other than before.
    fn insert(&mut self, object: DynamicObject) -> Option<Arc<DynamicObject>> {
        let round = self.round;
        let namespace = self
            .objects
            .entry(object.namespace().unwrap_or_default())
            .or_default();
        let Some(entry) = namespace.get_mut(&object.name_any()) else {
            let name = object.name_any();
            let object = Arc::new(object);
            let entry = Entry {
                object: object.clone(),
                round,
                is_written: false,
            };
            namespace.insert(name, entry);
            return Some(object);
        };
        entry.round = round;
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
        // It may be there again already.
        if version(&namespace.get(&name)?.object) > version(object) {
            return None;
        }
        namespace.remove(&name).map(|entry| entry.object)
    }

    fn remove_unconfirmed(&mut self) -> Vec<Arc<DynamicObject>> {
        let round = self.round;
        let mut gone = Vec::new();
        for objects in self.objects.values_mut() {
            objects.retain(|_, entry| {
                let is_confirmed = entry.round == round;
                if !is_confirmed {
                    gone.push(entry.object.clone());
                }
                is_confirmed
            });
        }
        self.objects.retain(|_, objects| !objects.is_empty());
        gone
    }
}

/// Whether two versions of an object say the same. Of an object that is watched without its content
/// only the version tells that the content changed.
fn is_same(old: &DynamicObject, new: &DynamicObject) -> bool {
    if new.data.is_null() {
        return old.metadata.resource_version == new.metadata.resource_version;
    }
    let mut metadata = new.metadata.clone();
    metadata.resource_version = old.metadata.resource_version.clone();
    metadata == old.metadata && new.data == old.data
}

/// Versions of one kind grow with time. One that cannot be read is the oldest.
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

    fn size(cache: &Cache, name: &str) -> Option<u64> {
        cache.get("ns", name)?.data["spec"]["size"].as_u64()
    }

    #[test]
    fn what_was_written_is_known_before_the_watch_tells_and_then_is_no_news() {
        let cache = Cache::default();
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
    fn a_late_answer_does_not_bring_back_what_was_deleted() {
        let cache = Cache::default();
        cache.observe(Event::Apply(object("a", 5, 1)));
        assert_eq!(cache.observe(Event::Delete(object("a", 7, 1))).len(), 1);
        cache.record(object("a", 5, 1));
        assert_eq!(size(&cache, "a"), None);
    }

    #[test]
    fn a_new_list_removes_what_it_lacks_but_not_what_was_written_meanwhile() {
        let cache = Cache::default();
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
        let gone = cache.observe(Event::InitDone);
        assert_eq!(
            gone.iter().map(|one| one.name_any()).collect::<Vec<_>>(),
            ["b"]
        );
        assert_eq!(size(&cache, "a").and(size(&cache, "c")), Some(1));
        assert!(cache.is_complete());
    }

    #[test]
    fn without_content_another_version_is_a_change() {
        let bare = |version: &str| {
            let mut object = DynamicObject {
                types: None,
                metadata: object("a", 1, 1).metadata,
                data: serde_json::Value::Null,
            };
            object.metadata.resource_version = Some(version.to_owned());
            object
        };
        let cache = Cache::default();
        cache.observe(Event::Apply(bare("1")));
        assert!(cache.observe(Event::Apply(bare("1"))).is_empty());
        assert_eq!(cache.observe(Event::Apply(bare("2"))).len(), 1);
    }
}

//! The set of plugins in use: the built-in ones, and those from registries.
//!
//! The set is immutable and replaced as a whole: a caller keeps the set that it holds, and the next
//! caller gets the new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::Stream;
use llsd_api::schema_plugin::Existing;
use llsd_plugin::Plugin;
use llsd_registry::Reference;
use llsd_render::adapter::Adapter;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::changes;

/// The plugins in use, by slot.
pub(crate) struct PluginSet {
    builtin: Arc<[Plugin]>,
    loaded: Mutex<BTreeMap<Slot, Plugin>>,
    /// What existing resources do with a new version, by `SchemaPlugin`.
    existing: Mutex<BTreeMap<String, Existing>>,
    current: watch::Sender<Arc<[Plugin]>>,
}

/// The slot that a plugin is in use for: one per `SchemaPlugin`, or one per proposal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    /// Name of the `SchemaPlugin`.
    pub(crate) schema_plugin: String,
    /// The reference that an image proposed; `None` for the plugin that the `SchemaPlugin` names.
    pub(crate) proposed: Option<String>,
}

impl PluginSet {
    /// Starts with the built-in plugins. `current` receives the set and every change of it.
    pub(crate) fn new(
        builtin: impl Into<Arc<[Plugin]>>,
        current: watch::Sender<Arc<[Plugin]>>,
    ) -> Self {
        let builtin = builtin.into();
        current.send_replace(builtin.clone());
        Self {
            current,
            loaded: Mutex::default(),
            existing: Mutex::default(),
            builtin,
        }
    }

    /// The plugins, in the order in which they are tried.
    pub(crate) fn current(&self) -> Arc<[Plugin]> {
        self.current.borrow().clone()
    }

    /// The plugin in a slot.
    pub(crate) fn at(&self, slot: &Slot) -> Option<Plugin> {
        self.loaded.lock().get(slot).cloned()
    }

    /// The `SchemaPlugin` that a component comes from, and what existing resources do with a new version
    /// of it. `None` for a built-in one.
    pub(crate) fn schema_plugin_of(&self, digest: &str) -> Option<(String, Existing)> {
        let loaded = self.loaded.lock();
        let (slot, _) = loaded
            .iter()
            .find(|(_, plugin)| plugin.digest() == digest)?;
        let name = slot.schema_plugin.clone();
        let existing = self.existing.lock().get(&name).copied();
        Some((name, existing.unwrap_or_default()))
    }

    /// Sets what existing resources do with a new version of a `SchemaPlugin`.
    pub(crate) fn set_existing(&self, schema_plugin: &str, existing: Existing) {
        let mut all = self.existing.lock();
        let before = all.insert(schema_plugin.to_owned(), existing);
        drop(all);
        if before.unwrap_or_default() != existing {
            let loaded = self.loaded.lock();
            self.publish(&loaded);
        }
    }

    /// Whether a proposed plugin is in use.
    pub(crate) fn has_proposal(&self, proposal: &str) -> bool {
        let Ok(reference) = proposal.parse::<Reference>() else {
            return false;
        };
        let wanted = Some(reference.to_string());
        self.loaded
            .lock()
            .keys()
            .any(|slot| slot.proposed == wanted)
    }

    /// The plugins, in order, as they would be with another plugin in a slot.
    pub(crate) fn with(&self, slot: &Slot, plugin: &Plugin) -> Arc<[Plugin]> {
        let mut loaded = self.loaded.lock().clone();
        loaded.insert(slot.clone(), plugin.clone());
        self.in_order(&loaded)
    }

    /// Puts a plugin into a slot.
    pub(crate) fn put(&self, slot: Slot, plugin: Plugin) {
        let mut loaded = self.loaded.lock();
        loaded.insert(slot, plugin);
        self.publish(&loaded);
    }

    /// Empties a slot.
    pub(crate) fn remove(&self, slot: &Slot) {
        let mut loaded = self.loaded.lock();
        if loaded.remove(slot).is_some() {
            self.publish(&loaded);
        }
    }

    /// Empties every slot of a `SchemaPlugin` except those in `keep`.
    pub(crate) fn retain_slots(&self, schema_plugin: &str, keep: &[Slot]) {
        let mut loaded = self.loaded.lock();
        let before = loaded.len();
        loaded.retain(|slot, _| slot.schema_plugin != schema_plugin || keep.contains(slot));
        if loaded.len() != before {
            self.publish(&loaded);
        }
    }

    /// Empties every slot of the `SchemaPlugin`s that do not exist any more.
    pub(super) fn retain_schema_plugins(&self, exists: impl Fn(&str) -> bool) {
        let mut loaded = self.loaded.lock();
        let before = loaded.len();
        loaded.retain(|slot, _| exists(&slot.schema_plugin));
        if loaded.len() != before {
            self.publish(&loaded);
        }
    }

    /// Makes all resources be reconciled with the same set again.
    pub(super) fn announce(&self) {
        self.publish(&self.loaded.lock());
    }

    /// Yields each time the set changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.current.subscribe())
    }

    fn publish(&self, loaded: &BTreeMap<Slot, Plugin>) {
        self.current.send_replace(self.in_order(loaded));
    }

    /// Plugins that `SchemaPlugin`s name come first, then the built-in ones, then the proposed ones.
    fn in_order(&self, loaded: &BTreeMap<Slot, Plugin>) -> Arc<[Plugin]> {
        let of = |is_proposed| {
            let slots = loaded.iter();
            slots.filter(move |(slot, _)| slot.proposed.is_some() == is_proposed)
        };
        let named = of(false).map(|(_, plugin)| plugin);
        let proposed = of(true).map(|(_, plugin)| plugin);
        let all = named.chain(self.builtin.iter()).chain(proposed);
        all.cloned().collect()
    }
}

//! The plugins in use: those that the operator started with, and those that came from registries.
//!
//! The set is replaced as a whole. Who holds a set goes on with it; who asks next gets the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::Stream;
use llsd_plugin::Plugin;
use llsd_registry::Reference;
use tokio::sync::watch;

use super::changes;

/// What can be swapped while the operator runs.
pub(crate) struct PluginSet {
    given: Arc<[Plugin]>,
    loaded: Mutex<BTreeMap<Place, Plugin>>,
    current: watch::Sender<Arc<[Plugin]>>,
}

/// What a plugin is in use for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Name of the `SchemaPlugin`.
    pub(crate) resource: String,
    /// The reference that an image proposed; absent for the plugin that the resource names.
    pub(crate) proposed: Option<String>,
}

impl PluginSet {
    /// Starts with what the operator was given, and tells `current` of it and of every change.
    pub(crate) fn new(
        given: impl Into<Arc<[Plugin]>>,
        current: watch::Sender<Arc<[Plugin]>>,
    ) -> Self {
        let given = given.into();
        current.send_replace(given.clone());
        Self {
            current,
            loaded: Mutex::default(),
            given,
        }
    }

    /// The plugins to ask, in order.
    pub(crate) fn current(&self) -> Arc<[Plugin]> {
        self.current.borrow().clone()
    }

    /// The plugin in a place.
    pub(crate) fn at(&self, place: &Place) -> Option<Plugin> {
        self.lock().get(place).cloned()
    }

    /// Whether the plugin that an image proposes is in use.
    pub(crate) fn follows(&self, proposal: &str) -> bool {
        let Ok(reference) = proposal.parse::<Reference>() else {
            return false;
        };
        let wanted = Some(reference.to_string());
        self.lock().keys().any(|place| place.proposed == wanted)
    }

    /// The plugins to ask, in order, if another stood in a place.
    pub(crate) fn with(&self, place: &Place, plugin: &Plugin) -> Arc<[Plugin]> {
        let mut loaded = self.lock().clone();
        loaded.insert(place.clone(), plugin.clone());
        self.in_order(&loaded)
    }

    /// Puts a plugin into its place.
    pub(crate) fn put(&self, place: Place, plugin: Plugin) {
        let mut loaded = self.lock();
        loaded.insert(place, plugin);
        self.publish(&loaded);
    }

    /// Empties a place.
    pub(crate) fn remove(&self, place: &Place) {
        let mut loaded = self.lock();
        if loaded.remove(place).is_some() {
            self.publish(&loaded);
        }
    }

    /// Empties every place of a resource except those named.
    pub(crate) fn retain(&self, resource: &str, keep: &[Place]) {
        let mut loaded = self.lock();
        let before = loaded.len();
        loaded.retain(|place, _| place.resource != resource || keep.contains(place));
        if loaded.len() != before {
            self.publish(&loaded);
        }
    }

    /// Empties every place of resources that are not among those named.
    pub(crate) fn keep_only(&self, resources: &BTreeSet<String>) {
        let mut loaded = self.lock();
        let before = loaded.len();
        loaded.retain(|place, _| resources.contains(&place.resource));
        if loaded.len() != before {
            self.publish(&loaded);
        }
    }

    /// Fires each time the set changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.current.subscribe())
    }

    fn publish(&self, loaded: &BTreeMap<Place, Plugin>) {
        self.current.send_replace(self.in_order(loaded));
    }

    /// What an installer names stands before what was built in, and what images propose after it.
    fn in_order(&self, loaded: &BTreeMap<Place, Plugin>) -> Arc<[Plugin]> {
        let of = |is_proposed| {
            let places = loaded.iter();
            places.filter(move |(place, _)| place.proposed.is_some() == is_proposed)
        };
        let named = of(false).map(|(_, plugin)| plugin);
        let proposed = of(true).map(|(_, plugin)| plugin);
        let all = named.chain(self.given.iter()).chain(proposed);
        all.cloned().collect()
    }

    /// The map is plain data, which a panic elsewhere cannot leave half-changed.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Plugin>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

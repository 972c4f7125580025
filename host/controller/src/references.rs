//! Which resource refers to which Secret or ConfigMap, so that a change of one wakes the other.
//!
//! Nobody has to label anything: a resource is recorded each time it is reconciled. Before that it
//! needs no waking, for it is going to be reconciled anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use llsd_api::checked::{Checked, ConfigSource};

use crate::gather::trust::PLATFORM_BUNDLE;

/// An object that resources refer to by name, in their own namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Referent {
    Secret(String),
    ConfigMap(String),
}

/// By namespace and resource, what the resource refers to.
#[derive(Debug, Default)]
pub(crate) struct References(Mutex<BTreeMap<String, BTreeMap<String, BTreeSet<Referent>>>>);

impl References {
    /// Remembers what a resource refers to, instead of what it referred to before.
    pub(crate) fn record(&self, namespace: &str, checked: &Checked) {
        let secrets = checked
            .references()
            .into_iter()
            .map(|one| one.secret.clone())
            .chain(checked.networking.tls_secret.clone())
            .map(Referent::Secret);
        let config_map = match &checked.config_source {
            ConfigSource::Override { config_map, .. } => Some(config_map.clone()),
            ConfigSource::Generated { base } => base.as_ref().map(|base| base.name.clone()),
            ConfigSource::DistributionDefault => None,
        };
        let bundle = checked.networking.ca_bundle.as_ref();
        let config_maps = bundle
            .map(|bundle| bundle.config_map_name.clone())
            .into_iter()
            .chain(config_map)
            .chain([PLATFORM_BUNDLE.to_owned()])
            .map(Referent::ConfigMap);
        let all = secrets.chain(config_maps).collect();
        self.lock()
            .entry(namespace.to_owned())
            .or_default()
            .insert(checked.name.clone(), all);
    }

    /// Names of the resources of a namespace that refer to an object.
    pub(crate) fn referrers(&self, namespace: &str, referent: &Referent) -> Vec<String> {
        let all = self.lock();
        let resources = all.get(namespace).into_iter().flatten();
        resources
            .filter(|(_, referents)| referents.contains(referent))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Forgets a resource that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let mut all = self.lock();
        if let Some(resources) = all.get_mut(namespace) {
            resources.remove(name);
            if resources.is_empty() {
                all.remove(namespace);
            }
        }
    }

    /// No reader or writer leaves the map half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, BTreeSet<Referent>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

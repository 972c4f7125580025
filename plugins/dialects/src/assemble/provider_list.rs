//! The APIs of the file and their providers.

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::Value;

use super::base::Stack;
use super::entry::{Entry, Origin, Replaced};
use crate::apis;
use crate::catalog::Provider;
use crate::env::Id;

impl Stack {
    /// Whether an API is served and has a provider.
    pub(super) fn serves(&self, api: &str) -> bool {
        self.lists(api) && self.entries(api).next().is_some()
    }

    /// Whether `apis` contains an API, or is absent, which means all.
    fn lists(&self, api: &str) -> bool {
        self.apis
            .as_ref()
            .is_none_or(|apis| apis.iter().any(|entry| entry == api))
    }

    /// Adds an API to `apis`, if there is a list.
    pub(super) fn list(&mut self, api: &str) {
        if !self.lists(api)
            && let Some(apis) = &mut self.apis
        {
            apis.push(Value::String(api.to_owned()));
        }
    }

    /// Removes an API, which the entry at `path` disables.
    pub(super) fn disable_api(&mut self, api: &str, path: &str) {
        let with_providers = self
            .providers
            .iter()
            .filter(|(_, entries)| !entries.is_empty());
        let named = || {
            with_providers
                .map(|(api, _)| Value::String(api.clone()))
                .collect()
        };
        self.apis.get_or_insert_with(named).retain(|entry| {
            let is_routing = |name: &&str| entry == *name;
            entry != api && !apis::routing(api).iter().any(is_routing)
        });
        self.providers.retain(|(name, _)| name != api);
        self.malformed_providers.remove(api);
        self.disabled.push((api.to_owned(), None, path.to_owned()));
    }

    /// Removes a provider, which the entry at `path` disables. Returns whether it existed.
    pub(super) fn remove_provider(&mut self, api: &str, id: &str, path: &str) -> bool {
        let Some((_, entries)) = self.providers.iter_mut().find(|(name, _)| name == api) else {
            return false;
        };
        let before = entries.len();
        entries.retain(|entry| !entry.is(id));
        let found = entries.len() < before;
        self.placed
            .retain(|(placed, placed_id)| placed != api || placed_id != id);
        if found {
            self.disabled
                .push((api.to_owned(), Some(id.to_owned()), path.to_owned()));
        }
        found
    }

    /// The path that disables an API, if there is one.
    pub(super) fn disabled_at(&self, api: &str) -> Option<&str> {
        self.disabled
            .iter()
            .find(|(gone, id, _)| gone == api && id.is_none())
            .map(|(_, _, path)| path.as_str())
    }

    /// The path that disables a provider or its API, if there is one.
    pub(super) fn provider_disabled_at(&self, api: &str, id: &str) -> Option<&str> {
        let single = || {
            self.disabled
                .iter()
                .find(|(gone, gone_id, _)| gone == api && gone_id.as_deref() == Some(id))
        };
        self.disabled_at(api)
            .or_else(|| single().map(|(_, _, path)| path.as_str()))
    }

    /// The APIs that have providers, sorted.
    pub(super) fn apis_with_providers(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        self.providers
            .iter()
            .map(|(api, entries)| (api.as_str(), entries.as_slice()))
    }

    /// The providers of an API.
    pub(super) fn entries(&self, api: &str) -> std::slice::Iter<'_, Entry> {
        self.providers
            .iter()
            .find(|(name, _)| name == api)
            .map_or([].iter(), |(_, entries)| entries.iter())
    }

    /// All providers, to change them.
    pub(super) fn all_entries_mut(&mut self) -> impl Iterator<Item = (&str, &mut Entry)> {
        self.providers
            .iter_mut()
            .flat_map(|(api, entries)| entries.iter_mut().map(|entry| (api.as_str(), entry)))
    }

    /// The provider with an id, conditional or not.
    pub(super) fn entry(&self, api: &str, id: &str) -> Option<&Entry> {
        self.entries(api).find(|entry| entry.is(id))
    }

    /// The ids of an API's unconditional providers: the resource's, then the base's.
    pub(super) fn ids(&self, api: &str) -> Vec<&str> {
        let mut ids: Vec<&str> = self.placed(api).collect();
        for entry in self.entries(api) {
            if let Id::Always(id) = entry.id()
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
        ids
    }

    /// The ids of the resource's providers of an API, in the order of the resource.
    pub(super) fn placed(&self, api: &str) -> impl Iterator<Item = &str> {
        self.placed
            .iter()
            .filter(move |(placed, _)| placed == api)
            .map(|(_, id)| id.as_str())
    }

    /// The catalogue line of an entry.
    pub(super) fn known(&self, api: &str, entry: &Entry) -> Option<Provider> {
        self.catalog.find(api, entry.provider_type())
    }

    /// Replaces the provider with the same id, or appends. Returns what was replaced.
    pub(super) fn put(
        &mut self,
        api: &str,
        id: &str,
        value: Object,
        origin: Origin,
    ) -> Option<Replaced> {
        self.list(api);
        self.placed.push((api.to_owned(), id.to_owned()));
        let place = self
            .providers
            .iter()
            .position(|(name, _)| name.as_str() >= api)
            .unwrap_or(self.providers.len());
        if self
            .providers
            .get(place)
            .is_none_or(|(name, _)| name != api)
        {
            self.providers.insert(place, (api.to_owned(), Vec::new()));
        }
        let (_, entries) = self.providers.get_mut(place)?;
        if let Some(at) = entries.iter().position(|entry| entry.is(id)) {
            // The server uses the last of several with one id, so only one is kept.
            let mut place = 0;
            entries.retain(|entry| {
                place += 1;
                place <= at + 1 || !entry.is(id)
            });
            return entries
                .get_mut(at)
                .map(|entry| entry.replace(value, origin));
        }
        let only = match entries.as_slice() {
            [only] => only.id().name().map(str::to_owned),
            _ => None,
        };
        entries.push(Entry {
            value: Value::Object(value),
            origin,
        });
        if let Some(only) = only {
            self.pin_resources(api, &only);
        }
        None
    }

    /// Sets the provider of resources that relied on a single provider: with two, the server could not
    /// choose.
    fn pin_resources(&mut self, api: &str, provider: &str) {
        for kind in ["models", "shields"] {
            if apis::of_resource(kind) != Some(api) {
                continue;
            }
            for resource in self.existing_resources_mut(kind).into_iter().flatten() {
                if let Some(resource) = resource.as_object_mut() {
                    resource
                        .entry("provider_id")
                        .or_insert_with(|| Value::String(provider.to_owned()));
                }
            }
        }
    }
}

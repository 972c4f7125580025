//! The base, taken apart for the length of one call.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Assembly, Counts, ModelId, Object, Startup, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};
use llsd_adapter_sdk::{Answer, Diagnostic, Diagnostics};

use crate::catalog::{Catalog, Provider};
use crate::env::Id;
use crate::layout::{Dialect, Telemetry};
use crate::release::Release;

/// A file in the making.
pub(super) struct Stack {
    pub(super) dialect: &'static Dialect,
    pub(super) release: Option<Release>,
    pub(super) catalog: Catalog,
    /// Everything but `apis` and `providers`.
    pub(super) top: Object,
    /// The APIs served; none: the file does not choose, so all are.
    apis: Option<Vec<Value>>,
    /// Providers per API, in the order of the file.
    providers: BTreeMap<String, Vec<Entry>>,
    /// Parts of `providers` that are no lists.
    odd_providers: Object,
    /// APIs that the resource left out, and where it says so.
    pub(super) gone: BTreeMap<String, String>,
    /// Single providers that it left out: API, id, where.
    pub(super) gone_providers: Vec<(String, String, String)>,
    /// Whether the resource registered a shield.
    pub(super) registered_shields: bool,
    /// Ids of the resource's providers per API, in its order.
    placed: BTreeMap<String, Vec<String>>,
    pub(super) variables: Vec<Variable>,
    pub(super) notes: Diagnostics,
}

/// One provider of the file.
pub(super) struct Entry {
    /// As the file holds it.
    pub(super) value: Value,
    /// Who wants it.
    pub(super) origin: Origin,
}

/// Who wants a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The base.
    Base,
    /// `spec.providers`, at this path.
    User(String),
    /// `spec.externalProviders`, at this path.
    External(String),
    /// A tool or a shield that needs it, at this path.
    Brought(String),
}

impl Origin {
    /// The path to blame; nothing for the base.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Base => None,
            Self::User(path) | Self::External(path) | Self::Brought(path) => Some(path),
        }
    }
}

impl Entry {
    pub(super) fn id(&self) -> Id<'_> {
        Id::of(self.value.get("provider_id"))
    }

    pub(super) fn provider_type(&self) -> &str {
        self.value
            .get("provider_type")
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    pub(super) fn config(&self) -> Option<&Object> {
        self.value.get("config").and_then(Value::as_object)
    }

    /// Its configuration, made when it has none; nothing when it is no object.
    pub(super) fn config_mut(&mut self) -> Option<&mut Object> {
        let config = self
            .value
            .as_object_mut()?
            .entry("config")
            .or_insert_with(|| json!({}));
        if config.is_null() {
            *config = json!({});
        }
        config.as_object_mut()
    }
}

impl Stack {
    /// Takes a base apart. Only what is no object at all is refused.
    pub(super) fn open(
        dialect: &'static Dialect,
        release: Option<Release>,
        base: Value,
    ) -> Result<Self, Diagnostic> {
        let Value::Object(mut top) = base else {
            return Err(Diagnostic::error(
                "malformed-base",
                "",
                "the base configuration is no mapping of keys to values",
                "give the distribution's own configuration file",
            ));
        };
        let mut notes = Diagnostics::default();
        let mut malformed = |key: &str, what: &str| {
            notes.error(
                "malformed-base",
                "",
                format!("{key} of the base configuration is not {what}"),
                "mend the base, or give another with spec.distribution.baseConfig",
            );
        };
        // An empty list means every API, except from ogx 1.5 on.
        let means_none =
            dialect.product == "ogx" && release.is_some_and(|release| release >= Release(1, 5, 0));
        let apis = match top.remove("apis") {
            Some(Value::Array(list)) if !list.is_empty() || means_none => Some(list),
            None | Some(Value::Null | Value::Array(_)) => None,
            Some(_) => {
                malformed("apis", "a list");
                None
            }
        };
        let mut providers = BTreeMap::new();
        let mut odd_providers = Object::new();
        match top.remove("providers") {
            Some(Value::Object(by_api)) => {
                for (api, list) in by_api {
                    match list {
                        Value::Array(list) => {
                            let entries = list
                                .into_iter()
                                .map(|value| Entry {
                                    value,
                                    origin: Origin::Base,
                                })
                                .collect();
                            providers.insert(api, entries);
                        }
                        odd => {
                            odd_providers.insert(api, odd);
                        }
                    }
                }
            }
            None | Some(Value::Null) => {}
            Some(_) => malformed("providers", "a mapping of APIs to lists"),
        }
        let mut stack = Self {
            dialect,
            release,
            catalog: Catalog::of(dialect, release),
            top,
            apis,
            providers,
            odd_providers,
            gone: BTreeMap::new(),
            gone_providers: Vec::new(),
            registered_shields: false,
            placed: BTreeMap::new(),
            variables: Vec::new(),
            notes,
        };
        stack.report_duplicates();
        Ok(stack)
    }

    /// Two providers with one id: the server takes the last and says nothing.
    fn report_duplicates(&mut self) {
        for (api, entries) in &self.providers {
            for (place, entry) in entries.iter().enumerate() {
                let Id::Always(id) = entry.id() else { continue };
                if entries
                    .iter()
                    .take(place)
                    .any(|earlier| earlier.id() == Id::Always(id))
                {
                    self.notes.warning(
                        "base-duplicate-provider",
                        "",
                        format!("the base configuration has two {api} providers with the id {id:?}; the server takes the last"),
                        "give each its own id in the base",
                    );
                }
            }
        }
    }

    /// Whether this release is at least that one; `unknown` when nobody knows.
    pub(super) fn is_from(&self, first: Release, unknown: bool) -> bool {
        self.release.map_or(unknown, |release| release >= first)
    }

    /// Whether an API is served and has a provider.
    pub(super) fn serves(&self, api: &str) -> bool {
        self.lists(api) && self.entries(api).next().is_some()
    }

    /// Whether `apis` holds an API, or holds all of them.
    fn lists(&self, api: &str) -> bool {
        self.apis
            .as_ref()
            .is_none_or(|apis| apis.iter().any(|entry| entry == api))
    }

    /// Puts an API into `apis`, when that is a choice.
    pub(super) fn list(&mut self, api: &str) {
        if !self.lists(api)
            && let Some(apis) = &mut self.apis
        {
            apis.push(Value::String(api.to_owned()));
        }
    }

    /// Leaves an API out, because of what stands at `path`.
    pub(super) fn leave_out(&mut self, api: &str, path: &str) {
        let with_providers = self
            .providers
            .iter()
            .filter(|(_, entries)| !entries.is_empty());
        let named = || {
            with_providers
                .map(|(api, _)| Value::String(api.clone()))
                .collect()
        };
        self.apis
            .get_or_insert_with(named)
            .retain(|entry| entry != api);
        self.providers.remove(api);
        self.odd_providers.remove(api);
        self.gone.insert(api.to_owned(), path.to_owned());
    }

    /// Where the resource left out a provider, if it did.
    pub(super) fn left_out(&self, api: &str, id: &str) -> Option<&str> {
        let single = self
            .gone_providers
            .iter()
            .find(|(gone, gone_id, _)| gone == api && gone_id == id);
        self.gone
            .get(api)
            .or(single.map(|(_, _, path)| path))
            .map(String::as_str)
    }

    /// The APIs that have providers.
    pub(super) fn apis_with_providers(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        self.providers
            .iter()
            .map(|(api, entries)| (api.as_str(), entries.as_slice()))
    }

    /// The providers of an API.
    pub(super) fn entries(&self, api: &str) -> std::slice::Iter<'_, Entry> {
        self.providers
            .get(api)
            .map_or([].iter(), |entries| entries.iter())
    }

    /// All providers, to change them.
    pub(super) fn all_entries_mut(&mut self) -> impl Iterator<Item = (&str, &mut Entry)> {
        self.providers
            .iter_mut()
            .flat_map(|(api, entries)| entries.iter_mut().map(move |entry| (api.as_str(), entry)))
    }

    /// The provider with an id, conditional or not.
    pub(super) fn entry(&self, api: &str, id: &str) -> Option<&Entry> {
        self.entries(api)
            .find(|entry| entry.id().name() == Some(id))
    }

    /// The ids of an API's providers that are there without further ado, for a message.
    pub(super) fn ids(&self, api: &str) -> Vec<&str> {
        let mut ids: Vec<&str> = self.placed(api).iter().map(String::as_str).collect();
        for entry in self.entries(api) {
            if let Id::Always(id) = entry.id()
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
        ids
    }

    /// The ids of the resource's own providers of an API, in its order.
    pub(super) fn placed(&self, api: &str) -> &[String] {
        self.placed.get(api).map_or(&[], Vec::as_slice)
    }

    /// What the catalogue knows about an entry.
    pub(super) fn known(&self, api: &str, entry: &Entry) -> Option<Provider> {
        self.catalog.find(api, entry.provider_type())
    }

    /// Puts a provider where the one with its id stands, or at the end; returns who wanted that.
    ///
    /// Over a provider of the same type, keys of its configuration that the new one does not set
    /// stay: they are the distribution's own defaults.
    pub(super) fn put(
        &mut self,
        api: &str,
        id: &str,
        mut value: Object,
        origin: Origin,
    ) -> Option<Origin> {
        self.list(api);
        let is_external = matches!(origin, Origin::External(_));
        if !is_external {
            self.placed
                .entry(api.to_owned())
                .or_default()
                .push(id.to_owned());
        } else if self.placed(api).is_empty() {
            self.placed
                .entry(api.to_owned())
                .or_default()
                .push(id.to_owned());
        }
        let entries = self.providers.entry(api.to_owned()).or_default();
        let Some(place) = entries
            .iter()
            .position(|entry| entry.id().name() == Some(id))
        else {
            entries.push(Entry {
                value: Value::Object(value),
                origin,
            });
            return None;
        };
        // The server takes the last of several with one id, so none may follow.
        let mut seen = false;
        entries
            .retain(|entry| entry.id().name() != Some(id) || !std::mem::replace(&mut seen, true));
        let entry = entries.get_mut(place)?;
        if !is_external
            && let Value::Object(old) = std::mem::take(&mut entry.value)
            && old.get("provider_type") == value.get("provider_type")
        {
            keep_defaults(old, &mut value);
        }
        entry.value = Value::Object(value);
        Some(std::mem::replace(&mut entry.origin, origin))
    }

    /// Takes a provider out; says whether it was there.
    pub(super) fn take_out(&mut self, api: &str, id: &str) -> bool {
        let Some(entries) = self.providers.get_mut(api) else {
            return false;
        };
        let before = entries.len();
        entries.retain(|entry| entry.id().name() != Some(id));
        let found = entries.len() < before;
        if let Some(placed) = self.placed.get_mut(api) {
            placed.retain(|placed| placed != id);
        }
        found
    }

    /// The object that holds the registered resources.
    pub(super) fn resources(&self) -> Option<&Object> {
        match self.dialect.resources {
            None => Some(&self.top),
            Some(key) => self.top.get(key).and_then(Value::as_object),
        }
    }

    /// The list of a kind of resource, made when it is missing.
    pub(super) fn resources_mut(&mut self, kind: &str) -> Option<&mut Vec<Value>> {
        let home = match self.dialect.resources {
            None => Some(&mut self.top),
            Some(key) => object_mut(&mut self.top, key),
        };
        let list = home.and_then(|home| {
            let list = home.entry(kind).or_insert_with(|| json!([]));
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut()
        });
        if list.is_none() {
            self.notes.error(
                "malformed-base",
                "",
                format!("the registered {kind} of the base configuration are no list"),
                "mend the base, or give another with spec.distribution.baseConfig",
            );
        }
        list
    }

    /// The list of a kind of resource, if the file has one.
    pub(super) fn existing_resources_mut(&mut self, kind: &str) -> Option<&mut Vec<Value>> {
        match self.dialect.resources {
            None => self.top.get_mut(kind),
            Some(key) => self.top.get_mut(key).and_then(|home| home.get_mut(kind)),
        }
        .and_then(Value::as_array_mut)
    }

    /// An object at the top level, made when it is missing; nothing when the base has something else there.
    pub(super) fn section_mut(&mut self, key: &str) -> Option<&mut Object> {
        let section = object_mut(&mut self.top, key);
        if section.is_none() {
            self.notes.error(
                "malformed-base",
                "",
                format!("{key} of the base configuration is no mapping"),
                "mend the base, or give another with spec.distribution.baseConfig",
            );
        }
        section
    }

    /// Switches telemetry, where that is a switch.
    pub(super) fn switch_telemetry(&mut self, on: bool) -> bool {
        if self.dialect.telemetry != Telemetry::Switch {
            return false;
        }
        if let Some(section) = self.section_mut("telemetry") {
            section.insert("enabled".to_owned(), Value::Bool(on));
        }
        true
    }

    /// Puts everything together again.
    pub(super) fn finish(self, startup: Startup, models: Vec<ModelId>) -> Answer<Assembly> {
        let count = |kind: &str| {
            let list = self
                .resources()
                .and_then(|home| home.get(kind))
                .and_then(Value::as_array);
            list.map_or(0, |list| u32::try_from(list.len()).unwrap_or(u32::MAX))
        };
        let providers = self.providers.values().map(Vec::len).sum::<usize>();
        let counts = Counts {
            providers: u32::try_from(providers).unwrap_or(u32::MAX),
            models: count("models"),
            tools: count("tool_groups"),
            shields: count("shields"),
        };
        let Self {
            mut top,
            apis,
            providers,
            odd_providers: mut by_api,
            mut variables,
            notes,
            ..
        } = self;
        if let Some(apis) = apis {
            top.insert("apis".to_owned(), Value::Array(apis));
        }
        for (api, entries) in providers {
            by_api.insert(api, entries.into_iter().map(|entry| entry.value).collect());
        }
        top.insert("providers".to_owned(), Value::Object(by_api));
        variables.sort();
        variables.dedup();
        notes.finish(Assembly {
            config: top,
            variables,
            startup,
            counts,
            models,
        })
    }
}

fn object_mut<'o>(home: &'o mut Object, key: &str) -> Option<&'o mut Object> {
    let value = home.entry(key).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

/// What the old entry sets and the new one does not.
fn keep_defaults(old: Object, new: &mut Object) {
    for (key, value) in old {
        match (key.as_str(), value) {
            ("config", Value::Object(old)) => {
                if let Some(config) = new
                    .entry("config")
                    .or_insert_with(|| json!({}))
                    .as_object_mut()
                {
                    for (key, value) in old {
                        config.entry(key).or_insert(value);
                    }
                }
            }
            (_, value) => {
                new.entry(key).or_insert(value);
            }
        }
    }
}

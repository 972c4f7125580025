//! The base, taken apart for the length of one call.

use llsd_adapter_sdk::documents::{Assembly, Counts, ModelId, Object, Startup, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};
use llsd_adapter_sdk::{Answer, Diagnostic, Diagnostics};

use super::entry::{Entry, Origin};
use crate::catalog::Catalog;
use crate::env::Id;
use crate::layout::{Dialect, Telemetry};
use crate::names;
use llsd_adapter_sdk::Release;

const MEND: &str = "mend the base, or give another with spec.distribution.baseConfig";

/// A file in the making.
pub(super) struct Stack {
    pub(super) dialect: &'static Dialect,
    pub(super) release: Option<Release>,
    pub(super) catalog: Catalog,
    /// Everything but `apis` and `providers`.
    pub(super) top: Object,
    /// The APIs served; none: the file does not choose, so all are.
    pub(super) apis: Option<Vec<Value>>,
    /// Providers per API: the APIs sorted, their providers in the order of the file.
    pub(super) providers: Vec<(String, Vec<Entry>)>,
    /// Parts of `providers` that are no lists.
    pub(super) odd_providers: Object,
    /// What the resource left out: the API, the provider unless all of it, and where it says so.
    pub(super) gone: Vec<(String, Option<String>, String)>,
    /// API and id of the resource's providers, in its order.
    pub(super) placed: Vec<(String, String)>,
    /// Where the resource registered its first shield.
    pub(super) shields_at: Option<String>,
    pub(super) variables: Vec<Variable>,
    pub(super) notes: Diagnostics,
}

impl Stack {
    /// Takes a base apart. Only what is no object at all is refused.
    pub(super) fn open(
        dialect: &'static Dialect,
        release: Option<Release>,
        base: Value,
    ) -> Result<Self, Diagnostic> {
        let Value::Object(mut top) = base else {
            let problem = "the base configuration is no mapping of keys to values";
            return Err(Diagnostic::error("malformed-base", "", problem, MEND));
        };
        let apis = top.remove("apis");
        let providers = top.remove("providers");
        let mut stack = Self {
            dialect,
            release,
            catalog: Catalog::of(dialect, release),
            top,
            apis: None,
            providers: Vec::new(),
            odd_providers: Object::new(),
            gone: Vec::new(),
            placed: Vec::new(),
            shields_at: None,
            variables: Vec::new(),
            notes: Diagnostics::default(),
        };
        stack.read_apis(apis);
        stack.read_providers(providers);
        Ok(stack)
    }

    fn read_apis(&mut self, apis: Option<Value>) {
        // An empty list means every API, except from ogx 1.5 on.
        let means_none =
            self.dialect.product == "ogx" && self.is_from(Release::first(1, 5, 0), false);
        match apis {
            Some(Value::Array(list)) if !list.is_empty() || means_none => self.apis = Some(list),
            None | Some(Value::Null | Value::Array(_)) => {}
            Some(_) => self.malformed("apis", "a list"),
        }
    }

    fn read_providers(&mut self, providers: Option<Value>) {
        let by_api = match providers {
            Some(Value::Object(by_api)) => by_api,
            None | Some(Value::Null) => return,
            Some(_) => return self.malformed("providers", "a mapping of APIs to lists"),
        };
        for (api, list) in by_api {
            let Value::Array(list) = list else {
                self.odd_providers.insert(api, list);
                continue;
            };
            let entries: Vec<Entry> = list
                .into_iter()
                .map(|value| Entry {
                    value,
                    origin: Origin::Base,
                })
                .collect();
            self.report_duplicates(&api, &entries);
            let place = self
                .providers
                .iter()
                .position(|(name, _)| *name > api)
                .unwrap_or(self.providers.len());
            self.providers.insert(place, (api, entries));
        }
    }

    /// Two providers with one id: the server takes the last and says nothing.
    fn report_duplicates(&mut self, api: &str, entries: &[Entry]) {
        for (place, entry) in entries.iter().enumerate() {
            let Id::Always(id) = entry.id() else { continue };
            if entries
                .iter()
                .take(place)
                .any(|earlier| earlier.id() == Id::Always(id))
            {
                let problem = format!(
                    "the base configuration has two {api} providers with the id {id:?}; the server takes the last"
                );
                self.notes.warning(
                    "base-duplicate-provider",
                    "",
                    problem,
                    "give each its own id in the base",
                );
            }
        }
    }

    /// Says that the base cannot be worked on.
    pub(super) fn malformed(&mut self, key: &str, what: &str) {
        let problem = format!("{key} of the base configuration is not {what}");
        self.notes.error("malformed-base", "", problem, MEND);
    }

    /// Whether this release is at least that one; `unknown` when nobody knows.
    pub(super) fn is_from(&self, first: Release, unknown: bool) -> bool {
        self.release.map_or(unknown, |release| release >= first)
    }

    /// Says that the release has no such API.
    pub(super) fn no_such_api(&mut self, path: String, api: &str) {
        let problem = format!("{} has no API {api:?}", self.dialect.id);
        self.notes.error(
            "no-such-api",
            path,
            problem,
            names::choose(api, self.catalog.apis()),
        );
    }

    /// Says that nothing has the id that somebody names.
    pub(super) fn no_such_id(&mut self, path: &str, api: &str, id: &str) {
        let fix = names::choose(id, self.ids(api));
        let problem = format!("no {api} provider has the id {id:?}");
        self.notes.error(
            "unknown-provider-id",
            format!("{path}.provider"),
            problem,
            fix,
        );
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
        let is_there = match self.dialect.resources {
            None => Some(&mut self.top),
            Some(key) => object_mut(&mut self.top, key),
        }
        .is_some_and(|home| {
            let list = home.entry(kind).or_insert(Value::Null);
            if list.is_null() {
                *list = json!([]);
            }
            list.is_array()
        });
        if !is_there {
            self.malformed(kind, "a list of resources");
        }
        self.existing_resources_mut(kind)
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
        if object_mut(&mut self.top, key).is_none() {
            self.malformed(key, "a mapping");
        }
        self.top.get_mut(key).and_then(Value::as_object_mut)
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
        let providers = self
            .providers
            .iter()
            .map(|(_, entries)| entries.len())
            .sum::<usize>();
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
            variables,
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
        let mut sorted = Vec::with_capacity(variables.len());
        for variable in variables {
            names::insert_sorted(&mut sorted, variable);
        }
        notes.finish(Assembly {
            config: top,
            variables: sorted,
            startup,
            counts,
            models,
        })
    }
}

/// The object at a key, made when it is missing or null.
pub(super) fn object_mut<'o>(home: &'o mut Object, key: &str) -> Option<&'o mut Object> {
    let value = home.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

//! The base configuration, parsed for one call.

use llsd_adapter_sdk::documents::{Assembly, Counts, ModelId, Object, Startup, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};
use llsd_adapter_sdk::{Answer, Diagnostic, Diagnostics};

use super::entry::{Entry, Origin};
use crate::catalog::Catalog;
use crate::env::Id;
use crate::layout::{Dialect, Telemetry};
use crate::names;
use llsd_adapter_sdk::Release;

const FIX_BASE: &str =
    "fix the base configuration, or provide another one with spec.distribution.baseConfig";

/// The file while it is built.
pub(super) struct Stack {
    pub(super) dialect: &'static Dialect,
    pub(super) release: Option<Release>,
    pub(super) catalog: Catalog,
    /// Everything but `apis` and `providers`.
    pub(super) top: Object,
    /// The APIs served; `None` if the file has no list, which means all.
    pub(super) apis: Option<Vec<Value>>,
    /// Providers per API. APIs are sorted, providers are in the order of the file.
    pub(super) providers: Vec<(String, Vec<Entry>)>,
    /// Values in `providers` that are not lists.
    pub(super) malformed_providers: Object,
    /// What the resource disables: the API, the provider (`None` for the whole API), and the path.
    pub(super) disabled: Vec<(String, Option<String>, String)>,
    /// API and id of the resource's providers, in the order of the resource.
    pub(super) placed: Vec<(String, String)>,
    /// The path of the resource's first shield.
    pub(super) shields_at: Option<String>,
    pub(super) variables: Vec<Variable>,
    pub(super) diagnostics: Diagnostics,
}

impl Stack {
    /// Parses a base. It must be an object; nothing else is required.
    pub(super) fn open(
        dialect: &'static Dialect,
        release: Option<Release>,
        base: Value,
    ) -> Result<Self, Diagnostic> {
        let Value::Object(mut top) = base else {
            let problem = "the base configuration is not a mapping of keys to values";
            return Err(Diagnostic::error("malformed-base", "", problem, FIX_BASE));
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
            malformed_providers: Object::new(),
            disabled: Vec::new(),
            placed: Vec::new(),
            shields_at: None,
            variables: Vec::new(),
            diagnostics: Diagnostics::default(),
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
                self.malformed_providers.insert(api, list);
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

    /// Warns about two providers with one id, of which the server silently uses the last.
    fn report_duplicates(&mut self, api: &str, entries: &[Entry]) {
        for (place, entry) in entries.iter().enumerate() {
            let Id::Always(id) = entry.id() else { continue };
            if entries
                .iter()
                .take(place)
                .any(|earlier| earlier.id() == Id::Always(id))
            {
                let problem = format!(
                    "the base configuration has two {api} providers with the id {id:?}; the server uses the last one"
                );
                self.diagnostics.warning(
                    "base-duplicate-provider",
                    "",
                    problem,
                    "give each a unique id in the base configuration",
                );
            }
        }
    }

    /// Reports that a part of the base has the wrong type.
    pub(super) fn malformed(&mut self, key: &str, what: &str) {
        let problem = format!("{key} of the base configuration is not {what}");
        self.diagnostics
            .error("malformed-base", "", problem, FIX_BASE);
    }

    /// Whether the release is at least `first`; `unknown` if the release is not known.
    pub(super) fn is_from(&self, first: Release, unknown: bool) -> bool {
        self.release.map_or(unknown, |release| release >= first)
    }

    /// Whether the release, or a release of the dialect if it is not known, is at least `first`.
    pub(super) fn has(&self, first: Release) -> bool {
        self.dialect.before().is_none_or(|before| before > first) && self.is_from(first, true)
    }

    /// Reports that the release does not have an API.
    pub(super) fn no_such_api(&mut self, path: String, api: &str) {
        let problem = format!("{} has no API {api:?}", self.dialect.id);
        self.diagnostics.error(
            "no-such-api",
            path,
            problem,
            names::choose(api, self.catalog.apis()),
        );
    }

    /// Reports a reference to a provider id that does not exist.
    pub(super) fn no_such_id(&mut self, path: &str, api: &str, id: &str) {
        let fix = names::choose(id, self.ids(api));
        let problem = format!("no {api} provider has the id {id:?}");
        self.diagnostics.error(
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

    /// The list of a kind of resource, created if it is missing.
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

    /// An object at the top level, created if it is missing; `None` if the base has another type there.
    pub(super) fn section_mut(&mut self, key: &str) -> Option<&mut Object> {
        if object_mut(&mut self.top, key).is_none() {
            self.malformed(key, "a mapping");
        }
        self.top.get_mut(key).and_then(Value::as_object_mut)
    }

    /// Switches telemetry, if the dialect has a switch for it.
    pub(super) fn switch_telemetry(&mut self, on: bool) -> bool {
        if self.dialect.telemetry != Telemetry::Switch {
            return false;
        }
        if let Some(section) = self.section_mut("telemetry") {
            section.insert("enabled".to_owned(), Value::Bool(on));
        }
        true
    }

    /// Builds the complete file.
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
            malformed_providers: mut by_api,
            variables,
            diagnostics,
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
        diagnostics.finish(Assembly {
            config: top,
            variables: sorted,
            startup,
            counts,
            models,
        })
    }
}

/// The object at a key, created if it is missing or null.
pub(super) fn object_mut<'o>(home: &'o mut Object, key: &str) -> Option<&'o mut Object> {
    let value = home.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

//! The resource's providers: added to the base, then completed with defaults.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Expansion, Object, PlacedProvider};
use llsd_adapter_sdk::exchange::canonical;
use llsd_adapter_sdk::serde_json::Value;

use super::base::Stack;
use super::disabled::DisabledNames;
use super::entry::{Entry, Origin};
use super::state;
use crate::catalog::{EndpointKind, Filling, Provider};
use crate::{env, names};
use llsd_adapter_sdk::Release;

/// Adds the expanded providers to the base.
pub(super) fn place(
    stack: &mut Stack,
    by_api: BTreeMap<String, Vec<PlacedProvider>>,
    off: &DisabledNames,
) {
    for (written, list) in by_api {
        let api = stack.catalog.api(&written);
        for PlacedProvider { path, expansion } in list {
            let Some(api) = api else {
                if written != "telemetry" || !stack.switch_telemetry(true) {
                    stack.no_such_api(path, &written);
                }
                continue;
            };
            let Expansion {
                id,
                provider_type,
                config,
                module,
                wants: _,
            } = expansion;
            if is_disabled(stack, off, api, &id, &path) {
                continue;
            }
            let value = entry(stack, &path, &id, &provider_type, config, module);
            let replaced = stack.put(api, &id, value, Origin::User(path.clone()));
            if let Some(other) = replaced.and_then(|replaced| replaced.provider_type) {
                stack.diagnostics.warning(
                    "replaced-provider",
                    path,
                    format!("it replaces the base's {api} provider {id:?}, which has another type ({other})"),
                    "give it another id to keep both",
                );
            }
        }
    }
}

/// Whether `spec.disabled` disables a provider of the resource, which is then ignored with a warning.
pub(super) fn is_disabled(
    stack: &mut Stack,
    off: &DisabledNames,
    api: &str,
    id: &str,
    path: &str,
) -> bool {
    let Some(what) = off.covers(api, id) else {
        return false;
    };
    stack.diagnostics.warning(
        "disabled-wins",
        path,
        format!("spec.disabled disables {what:?}, so this provider is ignored"),
        "remove the provider, or remove the entry from spec.disabled",
    );
    true
}

/// A provider entry of the file. `config` is always set, because early releases require it.
pub(super) fn entry(
    stack: &mut Stack,
    path: &str,
    id: &str,
    provider_type: &str,
    config: Object,
    module: Option<String>,
) -> Object {
    let mut value = Object::new();
    value.insert("provider_id".to_owned(), Value::String(id.to_owned()));
    value.insert(
        "provider_type".to_owned(),
        Value::String(provider_type.to_owned()),
    );
    value.insert("config".to_owned(), Value::Object(config));
    if let Some(module) = module {
        let first = Release::first(0, 2, 16);
        if stack.dialect.before().is_some_and(|before| before <= first)
            || !stack.is_from(first, true)
        {
            stack.diagnostics.error(
                "no-module",
                path,
                format!("this release cannot load a provider from the module {module:?}"),
                "use llama-stack 0.2.16 or newer",
            );
        }
        value.insert("module".to_owned(), Value::String(module));
    }
    value
}

/// Fills in stores and paths of the resource's providers, and reports required keys that are missing.
pub(super) fn complete(stack: &mut Stack, data_dir: &str) {
    let templates = state::StoreTemplates::of(stack, data_dir);
    let catalog = stack.catalog;
    let mut notes = std::mem::take(&mut stack.diagnostics);
    for (api, entry) in stack.all_entries_mut() {
        let path = match &entry.origin {
            Origin::User(path) | Origin::Brought(path) => path.clone(),
            Origin::Base | Origin::External(_) => continue,
        };
        let Some(known) = catalog.find(api, entry.provider_type()) else {
            continue;
        };
        let Some(id) = entry.id().name().map(str::to_owned) else {
            continue;
        };
        fill(&templates, api, &id, known, entry);
        let config = entry.config();
        let endpoint = known.endpoint();
        for field in known.fields().filter(|field| field.is_required) {
            let value = config.and_then(|config| config.get(field.name));
            if value.is_some_and(|value| !env::is_empty_by_default(value) || field.is_nullable) {
                continue;
            }
            let is_endpoint = endpoint.is_some_and(|endpoint| endpoint.key == field.name);
            let (place, fix) = if is_endpoint {
                (
                    "endpoint".to_owned(),
                    "set endpoint to the URL of the service".to_owned(),
                )
            } else if known.credential == Some(field.name) {
                (
                    "apiKey".to_owned(),
                    "set apiKey to a Secret reference".to_owned(),
                )
            } else {
                (
                    format!("settings.{}", field.name),
                    format!("set settings.{0}, or secretRefs.{0}", field.name),
                )
            };
            match value {
                None => notes.error(
                    "missing-setting",
                    format!("{path}.{place}"),
                    format!("{} does not start without {}", known.provider_type, field.name),
                    fix,
                ),
                Some(value) => notes.warning(
                    "missing-setting",
                    format!("{path}.{place}"),
                    format!(
                        "{} does not start without {}, and the base sets it to {}, which is empty by default",
                        known.provider_type,
                        field.name,
                        canonical(value)
                    ),
                    fix,
                ),
            }
        }
        if endpoint.is_some_and(|endpoint| endpoint.kind == EndpointKind::Host) {
            let missing: Vec<&str> = ["host", "db", "user", "password"]
                .into_iter()
                .filter(|key| known.field(key).is_some())
                .filter(|key| {
                    config
                        .and_then(|config| config.get(*key))
                        .is_none_or(env::is_empty_by_default)
                })
                .collect();
            if !missing.is_empty() {
                notes.warning(
                    "incomplete-connection",
                    path,
                    format!(
                        "{} falls back to a local demo database for: {}",
                        known.provider_type,
                        missing.join(", ")
                    ),
                    "set them with secretRefs, or with settings if they are not secret",
                );
            }
        }
    }
    stack.diagnostics = notes;
}

fn fill(
    templates: &state::StoreTemplates,
    api: &str,
    id: &str,
    known: Provider,
    entry: &mut Entry,
) {
    let endpoint = known.endpoint().map(|endpoint| endpoint.key);
    let Some(config) = entry.config_mut() else {
        return;
    };
    for field in known.fields() {
        if config.contains_key(field.name) {
            continue;
        }
        let value = match field.filling {
            Filling::Nothing if field.is_nullable && endpoint != Some(field.name) => Value::Null,
            Filling::Nothing => continue,
            Filling::Store(kind) => templates.store(kind, api, id, field.name),
            Filling::Stores(list) => templates.stores(list, api, id),
            Filling::File => {
                Value::String(format!("{}/{}.db", templates.data_dir, names::plain(id)))
            }
            Filling::Folder => {
                Value::String(format!("{}/{}", templates.data_dir, names::plain(id)))
            }
        };
        config.insert(field.name.to_owned(), value);
    }
}

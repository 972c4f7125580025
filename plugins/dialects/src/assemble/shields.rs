//! Shields to register.

use llsd_adapter_sdk::documents::{ModelId, Object, Shield};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use super::entry::Origin;
use super::{models, providers};
use crate::env::Id;

const API: &str = "safety";

/// Registers the shields, and adds a provider if none exists.
pub(super) fn register(stack: &mut Stack, shields: Vec<Shield>, models: &[ModelId]) {
    for Shield {
        path,
        name,
        provider,
        model,
    } in shields
    {
        if stack.catalog.api(API).is_none() {
            stack.diagnostics.error(
                "no-such-api",
                path,
                format!(
                    "{} has no shields: its safety API was removed",
                    stack.dialect.id
                ),
                "remove it, and check inputs and outputs in front of the server instead",
            );
            continue;
        }
        if stack.disabled_at(API).is_some() {
            stack.diagnostics.error(
                "disabled-api",
                path,
                "a shield needs the safety API, which spec.disabled disables",
                "remove the shield, or remove safety from spec.disabled",
            );
            continue;
        }
        let Some(provider) = choose_provider(stack, &path, &name, provider) else {
            continue;
        };
        let judges_with_model = stack
            .entry(API, &provider)
            .is_some_and(|entry| entry.provider_type() == "inline::llama-guard");
        if model.is_none() && judges_with_model {
            stack.diagnostics.warning(
                "no-shield-model",
                format!("{path}.model"),
                format!("the shield {name:?} has no model, so every check with it will fail"),
                format!("write {{name: {name}, model: <a Llama Guard model that your inference provider serves>}}"),
            );
        }
        let mut entry = Object::new();
        entry.insert("shield_id".to_owned(), Value::String(name.clone()));
        entry.insert("provider_id".to_owned(), Value::String(provider));
        if let Some(model) = model {
            entry.insert(
                "provider_shield_id".to_owned(),
                Value::String(models::id_of(stack, model, models)),
            );
        }
        let Some(list) = stack.resources_mut("shields") else {
            continue;
        };
        list.retain(|old| old.get("shield_id").and_then(Value::as_str) != Some(name.as_str()));
        list.push(Value::Object(entry));
        stack.shields_at.get_or_insert(path);
    }
}

fn choose_provider(
    stack: &mut Stack,
    path: &str,
    name: &str,
    wanted: Option<String>,
) -> Option<String> {
    if let Some(wanted) = wanted {
        if stack.entry(API, &wanted).is_some() {
            return Some(wanted);
        }
        stack.no_such_id(path, API, &wanted);
        return None;
    }
    // The provider with the shield's name, else the resource's first, else a provider type of the
    // release with that name, else the base's first.
    if matches!(
        stack.entry(API, name).map(|entry| entry.id()),
        Some(Id::Always(_))
    ) {
        return Some(name.to_owned());
    }
    let has_type = stack
        .catalog
        .find(API, &format!("inline::{name}"))
        .is_some();
    let first = if has_type {
        stack.placed(API).next()
    } else {
        stack.ids(API).first().copied()
    };
    if let Some(first) = first {
        return Some(first.to_owned());
    }
    let brought = if has_type { name } else { "llama-guard" };
    let provider_type = format!("inline::{brought}");
    let mut config = Object::new();
    if brought == "llama-guard" {
        config.insert("excluded_categories".to_owned(), json!([]));
    }
    let value = providers::entry(stack, path, brought, &provider_type, config, None);
    stack.put(API, brought, value, Origin::Brought(path.to_owned()));
    Some(brought.to_owned())
}

//! Defaults of the file that name a provider or a shield.
//!
//! The server does not start with a default that names something missing. If the resource causes
//! that, the default is removed with a warning. If the base causes it, it is reported and kept.

use llsd_adapter_sdk::serde_json::Value;

use super::base::Stack;
use super::disabled;
use crate::env::Id;

/// Removes or reports defaults and resources that name something missing.
pub(super) fn settle(stack: &mut Stack) {
    settle_vector_stores(stack);
    settle_memory(stack);
    settle_safety(stack);
    report_resources(stack);
}

fn settle_vector_stores(stack: &mut Stack) {
    for (key, api, nested) in [
        ("default_provider_id", "vector_io", false),
        ("default_embedding_model", "inference", true),
        ("default_reranker_model", "inference", true),
    ] {
        let Some(value) = stack
            .top
            .get("vector_stores")
            .and_then(|section| section.get(key))
        else {
            continue;
        };
        let named = if nested {
            value.get("provider_id")
        } else {
            Some(value)
        };
        let Id::Always(id) = Id::of(named) else {
            continue;
        };
        if stack.entry(api, id).is_some() {
            continue;
        }
        let id = id.to_owned();
        if drop_or_report(stack, &format!("vector_stores.{key}"), api, &id)
            && let Some(section) = stack
                .top
                .get_mut("vector_stores")
                .and_then(Value::as_object_mut)
        {
            section.remove(key);
        }
    }
}

/// The responses provider of ogx has the name of a vector store in its settings.
fn settle_memory(stack: &mut Stack) {
    let key = "default_vector_store_provider_id";
    let named = |value: &Value| match Id::of(value.pointer("/config/memory_config")?.get(key)) {
        Id::Always(id) => Some(id.to_owned()),
        _ => None,
    };
    let dangling: Vec<String> = stack
        .entries("responses")
        .filter_map(|entry| named(&entry.value))
        .filter(|id| stack.entry("vector_io", id).is_none())
        .collect();
    for id in dangling {
        if !drop_or_report(stack, &format!("memory_config.{key}"), "vector_io", &id) {
            continue;
        }
        for (_, entry) in stack
            .all_entries_mut()
            .filter(|(api, _)| *api == "responses")
        {
            if let Some(memory) = entry
                .value
                .pointer_mut("/config/memory_config")
                .and_then(Value::as_object_mut)
            {
                memory.remove(key);
            }
        }
    }
}

/// Reports a default that names a missing provider. Returns whether to remove it.
fn drop_or_report(stack: &mut Stack, what: &str, api: &str, id: &str) -> bool {
    match stack.provider_disabled_at(api, id).map(str::to_owned) {
        Some(path) => {
            stack.diagnostics.warning(
                "dropped-default",
                path,
                format!("{what} of the base names the {api} provider {id:?}, which this disables; the default is removed"),
                "name the provider or the model in each request that relied on it",
            );
            true
        }
        None => {
            stack.diagnostics.warning(
                "base-dangling-default",
                "",
                format!("{what} of the base configuration names the {api} provider {id:?}, which it does not have"),
                "fix the base configuration: the server may not start with it",
            );
            false
        }
    }
}

/// `safety.default_shield_id` must name a shield that is registered, once any is.
fn settle_safety(stack: &mut Stack) {
    let Some(default) = stack
        .top
        .get("safety")
        .and_then(|section| section.get("default_shield_id"))
    else {
        return;
    };
    let Some(default) = default.as_str().map(str::to_owned) else {
        return;
    };
    let shields = stack
        .resources()
        .and_then(|home| home.get("shields"))
        .and_then(Value::as_array);
    let is =
        |shield: &&Value, wanted: fn(Id<'_>) -> bool| wanted(Id::of(shield.get("provider_id")));
    let always: Vec<&str> = shields
        .into_iter()
        .flatten()
        .filter(|shield| is(shield, |id| matches!(id, Id::Always(_))))
        .filter_map(|shield| shield.get("shield_id").and_then(Value::as_str))
        .collect();
    let is_gone = stack.disabled_at("safety").map(str::to_owned);
    // The server checks the default only if a shield is registered.
    if is_gone.is_none() && (always.is_empty() || always.contains(&default.as_str())) {
        return;
    }
    let (field, why) = match (is_gone, stack.shields_at.clone()) {
        (Some(path), _) => (path, "and safety is disabled"),
        (None, Some(path)) => (path, "which is not among the shields that are always there"),
        (None, None) => {
            stack.diagnostics.warning(
                "base-dangling-default",
                "",
                format!("safety.default_shield_id of the base configuration names {default:?}, which is not among its shields"),
                "fix the base configuration: the server may not start with it",
            );
            return;
        }
    };
    stack.diagnostics.warning(
        "dropped-default",
        field,
        format!(
            "safety.default_shield_id of the base names {default:?}, {why}; the default is removed"
        ),
        format!("register a shield called {default:?}, or name the shield in each request"),
    );
    if let Some(section) = stack.top.get_mut("safety").and_then(Value::as_object_mut) {
        section.remove("default_shield_id");
        if section.is_empty() {
            stack.top.remove("safety");
        }
    }
}

/// Reports resources of the base that name a missing provider.
fn report_resources(stack: &mut Stack) {
    let mut problems = Vec::new();
    for (kind, api, list) in disabled::named_resources(stack) {
        for resource in list {
            let Id::Always(id) = Id::of(resource.get("provider_id")) else {
                continue;
            };
            // ogx: every provider.
            if id == "all" || stack.entry(api, id).is_some() || stack.disabled_at(api).is_some() {
                continue;
            }
            problems.push(format!("one of the {kind} of the base configuration names the {api} provider {id:?}, which it does not have"));
        }
    }
    for problem in problems {
        stack.diagnostics.warning(
            "base-dangling-resource",
            "",
            problem,
            "fix the base configuration: the server may not start with it",
        );
    }
}

//! Vector stores, datasets, scoring functions and benchmarks to register, and defaults that name resources.

use llsd_adapter_sdk::documents::{ModelId, Object};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use super::{models, take_text};
use crate::names;

/// A kind of resource: the field of the resource, the list and the key of the id in the file, and the API.
const KINDS: [(&str, &str, &str, &str); 4] = [
    (
        "vectorStores",
        "vector_stores",
        "vector_store_id",
        "vector_io",
    ),
    ("datasets", "datasets", "dataset_id", "datasetio"),
    ("scoringFns", "scoring_fns", "scoring_fn_id", "scoring"),
    ("benchmarks", "benchmarks", "benchmark_id", "eval"),
];

/// Registers the resources, in their order: benchmarks name datasets.
#[inline(never)]
pub(super) fn register(stack: &mut Stack, registrations: Vec<Object>, models: &[ModelId]) {
    for registration in registrations {
        let kind = registration.get("kind").and_then(Value::as_str);
        let kind = KINDS.iter().find(|known| kind == Some(known.0));
        if let Some((kind, list, id, api)) = kind {
            // Vector stores had another name.
            let names = match *list == "vector_stores" && stack.dialect.resources.is_none() {
                true => ("vector_dbs", "vector_db_id"),
                false => (*list, *id),
            };
            register_one(stack, registration, kind, names, api, models);
        }
    }
}

fn register_one(
    stack: &mut Stack,
    mut registration: Object,
    kind: &str,
    (list, id): (&str, &str),
    api: &str,
    models: &[ModelId],
) {
    let mut take = |key: &str| take_text(&mut registration, key);
    let path = take("path").unwrap_or_default();
    let name = take("name").unwrap_or_default();
    let provider = take("provider");
    let Some(Value::Object(settings)) = registration.remove("settings") else {
        return;
    };
    let section = stack.dialect.resources.unwrap_or("top");
    if !stack.dialect.keys(section).contains(&list) {
        let problem = format!("{} does not register {kind}", stack.dialect.id);
        unsupported(stack, path, problem);
        return;
    }
    if stack.disabled_at(api).is_some() {
        stack.diagnostics.error(
            "disabled-api",
            path,
            format!("it needs the API {api:?}, which spec.disabled disables"),
            format!("remove it, or remove {api} from spec.disabled"),
        );
        return;
    }
    let mut entry = Object::new();
    entry.insert(id.to_owned(), Value::String(name.clone()));
    // The server itself selects the provider of a dataset, and that of a vector store before 0.2.13.
    let has_provider = list != "datasets" && !(stack.dialect.text_version && api == "vector_io");
    match (provider, has_provider) {
        (Some(_), false) => {
            let problem = format!("{} selects the provider itself", stack.dialect.id);
            unsupported(stack, format!("{path}.provider"), problem);
        }
        (provider, has_provider) => {
            let Some(provider) = choose_provider(stack, &path, api, provider) else {
                return;
            };
            if has_provider {
                entry.insert("provider_id".to_owned(), Value::String(provider));
            }
        }
    }
    for (key, value) in settings {
        let (key, value) = match (key.as_str(), value) {
            ("embeddingModel", Value::String(model)) => (
                "embedding_model",
                Value::String(models::id_of(stack, model, models)),
            ),
            ("embeddingDimension", value) => ("embedding_dimension", value),
            ("returnType", value) => ("return_type", json!({"type": value})),
            ("uri", value) => ("source", json!({"type": "uri", "uri": value})),
            ("scoringFns", value) => ("scoring_functions", value),
            ("dataset", value) => {
                check_dataset(stack, &path, &value);
                ("dataset_id", value)
            }
            (key, value) => (key, value),
        };
        entry.insert(key.to_owned(), value);
    }
    if let Some(list) = stack.resources_mut(list) {
        list.retain(|old| old.get(id).and_then(Value::as_str) != Some(name.as_str()));
        list.push(Value::Object(entry));
    }
}

fn unsupported(stack: &mut Stack, path: String, problem: String) {
    stack.diagnostics.error(
        "unsupported-option",
        path,
        problem,
        "remove it, or use another release",
    );
}

/// The provider of the resource, or the first of the API.
fn choose_provider(
    stack: &mut Stack,
    path: &str,
    api: &str,
    wanted: Option<String>,
) -> Option<String> {
    match wanted {
        Some(wanted) if stack.entry(api, &wanted).is_some() => Some(wanted),
        Some(wanted) => {
            stack.no_such_id(path, api, &wanted);
            None
        }
        None => {
            let first = stack.ids(api).first().map(|id| (*id).to_owned());
            if first.is_none() {
                stack.diagnostics.error(
                    "no-provider",
                    path,
                    format!("the server has no {api} provider"),
                    format!("configure one under spec.providers, for the API {api}"),
                );
            }
            first
        }
    }
}

/// A benchmark of a dataset that does not exist fails when it runs.
fn check_dataset(stack: &mut Stack, path: &str, dataset: &Value) {
    let home = stack.resources();
    let datasets = home.and_then(|home| home.get("datasets")?.as_array());
    let ids: Vec<&str> = datasets
        .into_iter()
        .flatten()
        .filter_map(|dataset| dataset.get("dataset_id")?.as_str())
        .collect();
    let wanted = dataset.as_str().unwrap_or_default();
    if ids.contains(&wanted) {
        return;
    }
    let fix = names::choose(wanted, ids);
    stack.diagnostics.error(
        "unknown-dataset",
        format!("{path}.dataset"),
        format!("no dataset has the name {wanted:?}"),
        fix,
    );
}

/// The defaults: the field of the resource, and the section and the key of the file.
const DEFAULTS: [(&str, &str, &str); 4] = [
    (
        "vectorStoreProvider",
        "vector_stores",
        "default_provider_id",
    ),
    ("embeddingModel", "vector_stores", "default_embedding_model"),
    ("rerankerModel", "vector_stores", "default_reranker_model"),
    ("shield", "safety", "default_shield_id"),
];

/// Writes the defaults of the resource over those of the base.
pub(super) fn set_defaults(stack: &mut Stack, mut defaults: Object, models: &[ModelId]) {
    for (field, section, key) in DEFAULTS {
        let Some(wanted) = take_text(&mut defaults, field) else {
            continue;
        };
        let path = format!("spec.resources.defaults.{field}");
        let is_read = match section {
            "safety" => stack.dialect.keys("top").contains(&section),
            _ => stack.dialect.keys(section).contains(&key),
        };
        if !is_read {
            let problem = format!("{} has no such default", stack.dialect.id);
            unsupported(stack, path, problem);
            continue;
        }
        let Some(value) = default(stack, field, &path, wanted, models) else {
            continue;
        };
        if let Some(section) = stack.section_mut(section) {
            section.insert(key.to_owned(), value);
        }
    }
}

/// A model and its provider.
fn model(stack: &mut Stack, path: &str, wanted: String, models: &[ModelId]) -> Option<Value> {
    let id = models::id_of(stack, wanted, models);
    let (provider, model) = id.split_once('/').unwrap_or(("", &id));
    if stack.entry("inference", provider).is_none() {
        stack.diagnostics.error(
            "unknown-default",
            path,
            format!("no inference provider has the model {id:?}"),
            "register it under spec.resources.models, or write <provider>/<model>",
        );
        return None;
    }
    Some(json!({"provider_id": provider, "model_id": model}))
}

/// The value of a default, if what it names exists.
fn default(
    stack: &mut Stack,
    field: &str,
    path: &str,
    wanted: String,
    models: &[ModelId],
) -> Option<Value> {
    let (what, known, value) = match field {
        "vectorStoreProvider" => {
            let value = Value::String(wanted.clone());
            ("vector_io provider", stack.ids("vector_io"), value)
        }
        "shield" => {
            let home = stack.resources();
            let shields = home.and_then(|home| home.get("shields")?.as_array());
            let ids = shields.into_iter().flatten();
            let ids = ids.filter_map(|shield| shield.get("shield_id")?.as_str());
            ("shield", ids.collect(), Value::String(wanted.clone()))
        }
        _ => return model(stack, path, wanted, models),
    };
    if known.contains(&wanted.as_str()) {
        return Some(value);
    }
    let problem = format!("no {what} has the name {wanted:?}");
    let fix = names::choose(&wanted, known);
    stack
        .diagnostics
        .error("unknown-default", path, problem, fix);
    None
}

//! Replaces well-known environment variables of a distribution with providers and models.
//!
//! In: a v1alpha2 resource, usually after conversion. Out: the same resource, with the well-known
//! variables of `spec.workload.overrides.env` moved to `spec.providers` and `spec.resources`. A variable
//! that cannot be moved stays, with a warning.

use serde_json::{Map, Value, json};

use super::annotations::mark_as_v1alpha2;
use super::pointer;
use crate::diagnostic::{Collector, Diagnostic};
use crate::field_path::FieldPath;

/// The outcome of [`lift_env`].
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// The resource.
    pub document: Value,
    /// Names of the variables that were moved, in the order of the resource.
    pub lifted: Vec<String>,
    /// Why other variables stayed.
    pub warnings: Vec<Diagnostic>,
}

struct WellKnown {
    api: &'static str,
    provider: &'static str,
    /// The variable with the address. Without one, the API key is enough to configure the provider.
    url: Option<&'static str>,
    keys: &'static [&'static str],
    models: &'static [&'static str],
}

macro_rules! well_known {
    ($($api:literal $provider:literal url $url:expr, keys $keys:expr, models $models:expr;)+) => {
        /// In the order of the generated providers.
        const WELL_KNOWN: &[WellKnown] = &[$(
            WellKnown { api: $api, provider: $provider, url: $url, keys: &$keys, models: &$models },
        )+];
    };
}

well_known! {
    "inference" "ollama" url Some("OLLAMA_URL"), keys [], models ["OLLAMA_INFERENCE_MODEL"];
    "inference" "vllm" url Some("VLLM_URL"), keys ["VLLM_API_KEY", "VLLM_API_TOKEN"], models ["VLLM_INFERENCE_MODEL"];
    "inference" "tgi" url Some("TGI_URL"), keys [], models [];
    "inference" "openai" url None, keys ["OPENAI_API_KEY"], models [];
    "inference" "anthropic" url None, keys ["ANTHROPIC_API_KEY"], models [];
    "inference" "gemini" url None, keys ["GEMINI_API_KEY"], models [];
    "inference" "groq" url None, keys ["GROQ_API_KEY"], models [];
    "inference" "together" url None, keys ["TOGETHER_API_KEY"], models [];
    "inference" "fireworks" url None, keys ["FIREWORKS_API_KEY"], models [];
    "inference" "cerebras" url None, keys ["CEREBRAS_API_KEY"], models [];
    "inference" "sambanova" url None, keys ["SAMBANOVA_API_KEY"], models [];
    "toolRuntime" "brave-search" url None, keys ["BRAVE_SEARCH_API_KEY"], models [];
    "toolRuntime" "tavily-search" url None, keys ["TAVILY_SEARCH_API_KEY"], models [];
}

/// The variable with the model of any inference provider.
const ANY_MODEL: &str = "INFERENCE_MODEL";
const ENV: &str = "/spec/workload/overrides/env";

/// Moves the well-known variables of a v1alpha2 resource to the fields for them. Marks the resource as
/// created in v1alpha2.
pub fn lift_env(document: Value) -> Lifted {
    let mut diagnostics = Collector::default();
    let mut lifted = Vec::new();
    let document = match document {
        Value::Object(mut map) => {
            mark_as_v1alpha2(&mut map);
            Value::Object(lift(map, &mut lifted, &mut diagnostics))
        }
        other => other,
    };
    Lifted {
        document,
        lifted,
        warnings: diagnostics.warnings,
    }
}

fn lift(
    mut document: Map<String, Value>,
    lifted: &mut Vec<String>,
    diagnostics: &mut Collector,
) -> Map<String, Value> {
    let Some(Value::Array(env)) = pointer::get(&document, ENV).cloned() else {
        return document;
    };
    if pointer::get(&document, "/spec/overrideConfig").is_some() {
        let path = FieldPath::spec().at(&["workload", "overrides", "env"]);
        diagnostics.warning(
            &path,
            "is not converted: the configuration in overrideConfig reads it",
            "remove overrideConfig to let the operator generate the configuration",
        );
        return document;
    }
    let mut moved: Vec<&'static str> = Vec::new();
    let mut models = Vec::new();
    for api in ["inference", "toolRuntime"] {
        let pointer = format!("/spec/providers/{api}");
        if pointer::get(&document, &pointer).is_none()
            && let Some(entries) = providers(api, &env, &mut moved, &mut models, diagnostics)
        {
            pointer::set(&mut document, &pointer, entries);
        }
    }
    if let Some(name) = literal(&env, ANY_MODEL)
        && pointer::get(&document, "/spec/providers/inference").is_some()
    {
        moved.push(ANY_MODEL);
        models.push(Map::from_iter([("name".to_owned(), json!(name))]));
    }
    if !models.is_empty() {
        register_models(&mut document, models);
    }
    let name = |variable: &Value| variable["name"].as_str().unwrap_or_default().to_owned();
    let (removed, rest): (Vec<Value>, Vec<Value>) = env
        .into_iter()
        .partition(|variable| moved.contains(&name(variable).as_str()));
    lifted.extend(removed.iter().map(name));
    match rest.is_empty() {
        true => remove_with_empty_parents(&mut document),
        false => {
            pointer::set(&mut document, ENV, Value::Array(rest));
        }
    }
    document
}

/// The value of `spec.providers.<api>` that the variables configure: one provider or a list.
fn providers(
    api: &str,
    env: &[Value],
    moved: &mut Vec<&'static str>,
    models: &mut Vec<Map<String, Value>>,
    diagnostics: &mut Collector,
) -> Option<Value> {
    let mut entries = Vec::new();
    for known in WELL_KNOWN.iter().filter(|known| known.api == api) {
        entries.extend(provider(known, env, moved, models, diagnostics));
    }
    if entries.len() == 1 {
        // The id of a single provider defaults to its type, and a model needs no provider.
        if api == "inference" {
            models.iter_mut().for_each(|model| {
                model.shift_remove("provider");
            });
        }
        let mut entry = entries.remove(0);
        entry.shift_remove("id");
        return Some(Value::Object(entry));
    }
    (!entries.is_empty()).then(|| entries.into_iter().map(Value::Object).collect())
}

/// Adds models to `spec.resources.models`, except those that are already registered.
fn register_models(document: &mut Map<String, Value>, models: Vec<Map<String, Value>>) {
    let mut all = pointer::get(document, "/spec/resources/models")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for model in models {
        if !all.iter().any(|known| registers(known, &model)) {
            all.push(Value::Object(model));
        }
    }
    pointer::set(document, "/spec/resources/models", Value::Array(all));
}

/// The provider that the variables configure.
fn provider(
    known: &'static WellKnown,
    env: &[Value],
    moved: &mut Vec<&'static str>,
    models: &mut Vec<Map<String, Value>>,
    diagnostics: &mut Collector,
) -> Option<Map<String, Value>> {
    let mut entry = Map::from_iter([
        ("id".to_owned(), json!(known.provider)),
        ("provider".to_owned(), json!(known.provider)),
    ]);
    if let Some(url) = known.url {
        let position = position(env, url)?;
        let Some(endpoint) = literal(env, url) else {
            warn(
                position,
                url,
                "its value is not a literal",
                "set the address in providers.<api>.endpoint",
                diagnostics,
            );
            return None;
        };
        entry.insert("endpoint".to_owned(), json!(endpoint));
        moved.push(url);
    }
    for key in known.keys {
        let Some(position) = position(env, key) else {
            continue;
        };
        match secret(&env[position]) {
            Some(reference) if !entry.contains_key("apiKey") => {
                entry.insert("apiKey".to_owned(), reference);
                moved.push(key);
            }
            Some(_) => warn(
                position,
                key,
                "another variable already sets the API key",
                "remove one of the two",
                diagnostics,
            ),
            None => warn(
                position,
                key,
                "it does not refer to a Secret",
                "store the key in a Secret and refer to it in apiKey",
                diagnostics,
            ),
        }
    }
    if known.url.is_none() && !entry.contains_key("apiKey") {
        return None;
    }
    for variable in known.models {
        if let Some(name) = literal(env, variable) {
            moved.push(variable);
            models.push(Map::from_iter([
                ("name".to_owned(), json!(name)),
                ("provider".to_owned(), json!(known.provider)),
            ]));
        }
    }
    Some(entry)
}

/// Whether an item of `resources.models` already registers the model of a variable. Two variables often
/// have the same model.
fn registers(entry: &Value, model: &Map<String, Value>) -> bool {
    let name = entry.get("name").unwrap_or(entry);
    let is_at = |provider| entry.get("provider") == Some(provider);
    Some(name) == model.get("name") && model.get("provider").is_none_or(is_at)
}

fn warn(position: usize, name: &str, problem: &str, fix: &str, diagnostics: &mut Collector) {
    let path = FieldPath::spec()
        .at(&["workload", "overrides", "env"])
        .index(position);
    diagnostics.warning(&path, format!("{name} is not converted: {problem}"), fix);
}

/// The index of a variable. If it is repeated, the last one counts.
fn position(env: &[Value], name: &str) -> Option<usize> {
    env.iter().rposition(|variable| variable["name"] == name)
}

/// The literal value of a variable, unless it refers to other variables as `$(NAME)`.
fn literal<'a>(env: &'a [Value], name: &str) -> Option<&'a str> {
    env[position(env, name)?]["value"]
        .as_str()
        .filter(|value| !value.is_empty() && !value.contains("$("))
}

fn secret(variable: &Value) -> Option<Value> {
    let reference = &variable["valueFrom"]["secretKeyRef"];
    Some(json!({ "name": reference["name"].as_str()?, "key": reference["key"].as_str()? }))
}

fn remove_with_empty_parents(document: &mut Map<String, Value>) {
    pointer::remove(document, ENV);
    for parent in ["/spec/workload/overrides", "/spec/workload"] {
        if pointer::get(document, parent) == Some(&json!({})) {
            pointer::remove(document, parent);
        }
    }
}

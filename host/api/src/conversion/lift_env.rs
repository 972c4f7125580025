//! Turns the variables that distributions are configured by into providers and models.
//!
//! In: a v1alpha2 resource, usually one that was just converted. Out: the same resource, with the
//! well-known variables of `spec.workload.overrides.env` said in `spec.providers` and
//! `spec.resources` instead. A variable that cannot be said there stays, with a warning.

use serde_json::{Map, Value, json};

use super::carried::{place, put, settle, take};
use crate::diagnostic::{Collector, Diagnostic};
use crate::field_path::FieldPath;

/// A resource without the variables that it can say better.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// The resource.
    pub document: Value,
    /// The variables that went, in the order of the resource.
    pub lifted: Vec<String>,
    /// Why others stayed.
    pub warnings: Vec<Diagnostic>,
}

struct WellKnown {
    api: &'static str,
    provider: &'static str,
    /// The variable that holds the address; without one the key alone makes the provider.
    url: Option<&'static str>,
    keys: &'static [&'static str],
    models: &'static [&'static str],
}

macro_rules! well_known {
    ($($api:literal $provider:literal url $url:expr, keys $keys:expr, models $models:expr;)+) => {
        /// In the order in which providers are listed.
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

/// The model of whatever inference provider there is.
const ANY_MODEL: &str = "INFERENCE_MODEL";
const ENV: &str = "/spec/workload/overrides/env";

/// Says the well-known variables of a v1alpha2 resource in the fields that it has for them. It
/// counts as made in v1alpha2 from then on.
pub fn lift_env(document: Value) -> Lifted {
    let mut diagnostics = Collector::default();
    let mut lifted = Vec::new();
    let document = match document {
        Value::Object(mut map) => {
            settle(&mut map);
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
    let Some(Value::Array(env)) = place(&document, ENV).cloned() else {
        return document;
    };
    if place(&document, "/spec/overrideConfig").is_some() {
        let path = FieldPath::spec().at(&["workload", "overrides", "env"]);
        diagnostics.warning(
            &path,
            "stays: the configuration of overrideConfig reads it",
            "remove overrideConfig to let the operator generate one",
        );
        return document;
    }
    let mut taken: Vec<&str> = Vec::new();
    let mut models = Vec::new();
    for api in ["inference", "toolRuntime"] {
        let place_of_api = format!("/spec/providers/{api}");
        if place(&document, &place_of_api).is_some() {
            continue;
        }
        let mut entries = Vec::new();
        for known in WELL_KNOWN.iter().filter(|known| known.api == api) {
            entries.extend(provider(known, &env, &mut taken, &mut models, diagnostics));
        }
        let is_single = entries.len() == 1;
        if is_single {
            // A provider that stands alone needs no id: it is called what it is.
            entries[0].shift_remove("id");
        }
        let mut entries: Vec<Value> = entries.into_iter().map(Value::Object).collect();
        if !entries.is_empty() {
            let entry = if is_single {
                entries.remove(0)
            } else {
                Value::Array(entries)
            };
            put(&mut document, &place_of_api, entry);
        }
        if api == "inference" && is_single {
            models
                .iter_mut()
                .for_each(|model: &mut Map<String, Value>| {
                    model.shift_remove("provider");
                });
        }
    }
    if let Some(name) = literal(&env, ANY_MODEL)
        && place(&document, "/spec/providers/inference").is_some()
    {
        taken.push(ANY_MODEL);
        models.push(Map::from_iter([("name".to_owned(), json!(name))]));
    }
    if !models.is_empty() {
        let mut all = place(&document, "/spec/resources/models")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for model in models {
            if !all.iter().any(|known| registers(known, &model)) {
                all.push(Value::Object(model));
            }
        }
        put(&mut document, "/spec/resources/models", Value::Array(all));
    }
    let name = |variable: &Value| variable["name"].as_str().unwrap_or_default().to_owned();
    let (gone, rest): (Vec<Value>, Vec<Value>) = env
        .into_iter()
        .partition(|variable| taken.contains(&name(variable).as_str()));
    lifted.extend(gone.iter().map(name));
    match rest.is_empty() {
        true => remove_with_empty_parents(&mut document),
        false => {
            put(&mut document, ENV, Value::Array(rest));
        }
    }
    document
}

/// The provider that these variables describe.
fn provider<'a>(
    known: &'a WellKnown,
    env: &[Value],
    taken: &mut Vec<&'a str>,
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
            note(
                position,
                url,
                "its value is not in the resource",
                "give the address as providers.<api>.endpoint",
                diagnostics,
            );
            return None;
        };
        entry.insert("endpoint".to_owned(), json!(endpoint));
        taken.push(url);
    }
    for key in known.keys {
        let Some(position) = position(env, key) else {
            continue;
        };
        match secret(&env[position]) {
            Some(reference) if !entry.contains_key("apiKey") => {
                entry.insert("apiKey".to_owned(), reference);
                taken.push(key);
            }
            Some(_) => note(
                position,
                key,
                "another variable gives the key already",
                "remove one of the two",
                diagnostics,
            ),
            None => note(
                position,
                key,
                "it is no reference to a Secret",
                "put the key into a Secret and refer to it as apiKey",
                diagnostics,
            ),
        }
    }
    if known.url.is_none() && !entry.contains_key("apiKey") {
        return None;
    }
    for variable in known.models {
        if let Some(name) = literal(env, variable) {
            taken.push(variable);
            models.push(Map::from_iter([
                ("name".to_owned(), json!(name)),
                ("provider".to_owned(), json!(known.provider)),
            ]));
        }
    }
    Some(entry)
}

/// Whether an entry of `resources.models` registers what a variable asks for. Two variables often
/// name one model.
fn registers(entry: &Value, model: &Map<String, Value>) -> bool {
    let name = entry.get("name").unwrap_or(entry);
    let is_at = |provider| entry.get("provider") == Some(provider);
    Some(name) == model.get("name") && model.get("provider").is_none_or(is_at)
}

fn note(position: usize, name: &str, problem: &str, fix: &str, diagnostics: &mut Collector) {
    let path = FieldPath::spec()
        .at(&["workload", "overrides", "env"])
        .index(position);
    diagnostics.warning(&path, format!("{name} stays a variable: {problem}"), fix);
}

/// Of a variable that is repeated, the last counts.
fn position(env: &[Value], name: &str) -> Option<usize> {
    env.iter().rposition(|variable| variable["name"] == name)
}

/// The value of a variable, unless the kubelet would put others into it.
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
    take(document, ENV);
    for parent in ["/spec/workload/overrides", "/spec/workload"] {
        if place(document, parent) == Some(&json!({})) {
            take(document, parent);
        }
    }
}

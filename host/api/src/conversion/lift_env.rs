//! Replaces well-known environment variables of a distribution with providers and models.
//!
//! In: a v1alpha2 resource, usually after conversion, and the base configuration of its distribution.
//! Out: the same resource, with well-known variables of `spec.workload.overrides.env` moved to
//! `spec.providers` and `spec.resources`, and a warning for each decision.
//!
//! A variable is moved only if the server works as before:
//!
//! * Nothing else reads it. The new provider replaces the base's provider entry of the same id; any
//!   other expression of the base, and any `$(NAME)` in another variable, keeps the variable.
//! * The variables of one provider (`VLLM_*`) move together or stay together. `VLLM_TLS_VERIFY` alone
//!   would have no effect on the new provider.
//! * The server reads the generated configuration: there is no `overrideConfig`, `command` or `args`.
//! * The base configuration is known.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::annotations::mark_as_v1alpha2;
use super::pointer;
use crate::diagnostic::{Collector, Diagnostic};
use crate::field_path::FieldPath;
use crate::server_variables::{Reading, readings};

/// The outcome of [`lift_env`].
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// The resource.
    pub document: Value,
    /// Names of the variables that were moved, in the order of the resource.
    pub lifted: Vec<String>,
    /// Which variables were moved, and why others stayed.
    pub warnings: Vec<Diagnostic>,
}

struct WellKnown {
    api: &'static str,
    provider: &'static str,
    /// The start of the names of the provider's variables.
    prefix: &'static str,
    /// The variable with the address. Without one, the API key is enough to configure the provider.
    url: Option<&'static str>,
    keys: &'static [&'static str],
    models: &'static [&'static str],
}

macro_rules! well_known {
    ($($api:literal $provider:literal $prefix:literal url $url:expr, keys $keys:expr, models $models:expr;)+) => {
        /// In the order of the generated providers.
        const WELL_KNOWN: &[WellKnown] = &[$(
            WellKnown { api: $api, provider: $provider, prefix: $prefix, url: $url, keys: &$keys, models: &$models },
        )+];
    };
}

well_known! {
    "inference" "ollama" "OLLAMA_" url Some("OLLAMA_URL"), keys [], models ["OLLAMA_INFERENCE_MODEL"];
    "inference" "vllm" "VLLM_" url Some("VLLM_URL"), keys ["VLLM_API_KEY", "VLLM_API_TOKEN"], models ["VLLM_INFERENCE_MODEL"];
    "inference" "tgi" "TGI_" url Some("TGI_URL"), keys [], models [];
    "inference" "openai" "OPENAI_" url None, keys ["OPENAI_API_KEY"], models [];
    "inference" "anthropic" "ANTHROPIC_" url None, keys ["ANTHROPIC_API_KEY"], models [];
    "inference" "gemini" "GEMINI_" url None, keys ["GEMINI_API_KEY"], models [];
    "inference" "groq" "GROQ_" url None, keys ["GROQ_API_KEY"], models [];
    "inference" "together" "TOGETHER_" url None, keys ["TOGETHER_API_KEY"], models [];
    "inference" "fireworks" "FIREWORKS_" url None, keys ["FIREWORKS_API_KEY"], models [];
    "inference" "cerebras" "CEREBRAS_" url None, keys ["CEREBRAS_API_KEY"], models [];
    "inference" "sambanova" "SAMBANOVA_" url None, keys ["SAMBANOVA_API_KEY"], models [];
    "toolRuntime" "brave-search" "BRAVE_SEARCH_" url None, keys ["BRAVE_SEARCH_API_KEY"], models [];
    "toolRuntime" "tavily-search" "TAVILY_SEARCH_" url None, keys ["TAVILY_SEARCH_API_KEY"], models [];
}

/// The variable with the model of any inference provider.
const ANY_MODEL: &str = "INFERENCE_MODEL";
const ENV: &str = "/spec/workload/overrides/env";

/// Moves the well-known variables of a v1alpha2 resource to the fields for them. Marks the resource as
/// created in v1alpha2. Without a base configuration, nothing is moved.
pub fn lift_env(document: Value, base: Option<&Value>) -> Lifted {
    let mut diagnostics = Collector::default();
    let mut lifted = Vec::new();
    let document = match document {
        Value::Object(mut map) => {
            mark_as_v1alpha2(&mut map);
            Value::Object(lift(map, base, &mut lifted, &mut diagnostics))
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
    base: Option<&Value>,
    lifted: &mut Vec<String>,
    diagnostics: &mut Collector,
) -> Map<String, Value> {
    let Some(Value::Array(env)) = pointer::get(&document, ENV).cloned() else {
        return document;
    };
    let readings = match (reason_to_keep_all(&document), base) {
        _ if !env.iter().any(is_well_known) => return document,
        (Some((problem, fix)), _) => {
            keep_all(problem, fix, diagnostics);
            return document;
        }
        (None, None) => {
            let problem = "the base configuration, which may read the variables, is not known";
            let fix = "pass it with --base-config, or the operator's ConfigMap with --settings";
            keep_all(problem, fix, diagnostics);
            return document;
        }
        (None, Some(base)) => readings(base),
    };
    let mut moves = Moves::default();
    for api in ["inference", "toolRuntime"] {
        let pointer = format!("/spec/providers/{api}");
        let is_given = pointer::get(&document, &pointer).is_some();
        let variables = Variables {
            env: &env,
            readings: &readings,
        };
        if let Some(entries) = providers(api, is_given, &variables, &mut moves, diagnostics) {
            pointer::set(&mut document, &pointer, entries);
        }
    }
    let has_inference = pointer::get(&document, "/spec/providers/inference").is_some();
    lift_any_model(&env, &readings, has_inference, &mut moves, diagnostics);
    let Moves { moved, models } = moves;
    if !models.is_empty() {
        register_models(&mut document, models);
    }
    let name = |variable: &Value| variable["name"].as_str().unwrap_or_default().to_owned();
    let target = |name: &str| moved.iter().find(|(variable, _)| *variable == name);
    for (position, variable) in env.iter().enumerate() {
        if let Some((name, field)) = target(&name(variable)) {
            diagnostics.warnings.push(
                Diagnostic::warning(
                    env_path().index(position),
                    format!("{name} is replaced by {field}"),
                    "check the new field; the variable is no longer set in the pod",
                )
                .with_code("lifted"),
            );
        }
    }
    let (removed, rest): (Vec<Value>, Vec<Value>) = env
        .into_iter()
        .partition(|variable| target(&name(variable)).is_some());
    lifted.extend(removed.iter().map(name));
    match rest.is_empty() {
        true => remove_with_empty_parents(&mut document),
        false => {
            pointer::set(&mut document, ENV, Value::Array(rest));
        }
    }
    diagnostics.warnings.sort();
    document
}

/// What is moved: each variable with the field that replaces it, and the models to register.
#[derive(Default)]
struct Moves {
    moved: Vec<(&'static str, &'static str)>,
    models: Vec<Map<String, Value>>,
}

/// The variables of the resource, and what the base configuration reads.
struct Variables<'a> {
    env: &'a [Value],
    readings: &'a [Reading<'a>],
}

/// Problem and fix, if the server does not read the generated configuration.
fn reason_to_keep_all(document: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    let is_set = |field: &str| {
        let value = pointer::get(document, field);
        value.is_some_and(|value| !value.is_null() && value != &json!([]))
    };
    if is_set("/spec/overrideConfig") {
        return Some((
            "the configuration in overrideConfig reads it",
            "remove overrideConfig to let the operator generate the configuration",
        ));
    }
    let own_start = ["command", "args"]
        .iter()
        .any(|field| is_set(&format!("/spec/workload/overrides/{field}")));
    own_start.then_some((
        "command or args starts the server, maybe with a file that reads it",
        "remove command and args to let the operator generate the configuration",
    ))
}

fn is_well_known(variable: &Value) -> bool {
    let name = variable["name"].as_str().unwrap_or_default();
    name == ANY_MODEL
        || WELL_KNOWN
            .iter()
            .any(|known| name.starts_with(known.prefix))
}

/// The value of `spec.providers.<api>` that the variables configure: one provider or a list.
fn providers(
    api: &str,
    is_given: bool,
    variables: &Variables<'_>,
    moves: &mut Moves,
    diagnostics: &mut Collector,
) -> Option<Value> {
    let mut entries = Vec::new();
    for known in WELL_KNOWN.iter().filter(|known| known.api == api) {
        let group = group(known, variables.env);
        if group.is_empty() {
            continue;
        }
        let lifted = match is_given {
            true => Err(Kept {
                cause: None,
                problem: format!("spec.providers.{api} is already set"),
                fix: "add the provider there, and remove the variable".to_owned(),
            }),
            false => provider(known, &group, variables),
        };
        match lifted {
            Ok((entry, of_provider)) => {
                entries.push(entry);
                moves.moved.extend(of_provider.moved);
                moves.models.extend(of_provider.models);
            }
            Err(kept) => kept.report(&group, variables.env, diagnostics),
        }
    }
    if entries.len() == 1 {
        // The id of a single provider defaults to its type, and a model needs no provider.
        if api == "inference" {
            moves.models.iter_mut().for_each(|model| {
                model.shift_remove("provider");
            });
        }
        let mut entry = entries.remove(0);
        entry.shift_remove("id");
        return Some(Value::Object(entry));
    }
    (!entries.is_empty()).then(|| entries.into_iter().map(Value::Object).collect())
}

/// The variables of a provider that the resource sets.
fn group<'a>(known: &WellKnown, env: &'a [Value]) -> BTreeSet<&'a str> {
    env.iter()
        .filter_map(|variable| variable["name"].as_str())
        .filter(|name| name.starts_with(known.prefix))
        .collect()
}

/// Why the variables of a provider stay.
struct Kept {
    /// The variable that is the reason; `None` if the reason is the same for all.
    cause: Option<String>,
    problem: String,
    fix: String,
}

impl Kept {
    fn new(cause: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            cause: Some(cause.to_owned()),
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// Adds a warning for each variable of the group.
    fn report(&self, group: &BTreeSet<&str>, env: &[Value], diagnostics: &mut Collector) {
        for name in group {
            let problem = match &self.cause {
                Some(cause) if cause != name => {
                    format!(
                        "{cause}, a variable of the same provider, stays: {}",
                        self.problem
                    )
                }
                _ => self.problem.clone(),
            };
            let position = position(env, name).unwrap_or_default();
            keep(
                &env_path().index(position),
                name,
                &problem,
                &self.fix,
                diagnostics,
            );
        }
    }
}

/// The provider that the variables of a group configure, and what moves. Either all variables move or
/// none does.
fn provider(
    known: &'static WellKnown,
    group: &BTreeSet<&str>,
    variables: &Variables<'_>,
) -> Result<(Map<String, Value>, Moves), Kept> {
    let env = variables.env;
    let mut moves = Moves::default();
    let mut entry = Map::from_iter([
        ("id".to_owned(), json!(known.provider)),
        ("provider".to_owned(), json!(known.provider)),
    ]);
    if let Some(url) = known.url
        && group.contains(url)
    {
        let endpoint = literal(env, url).ok_or_else(|| {
            Kept::new(
                url,
                "its value is not a literal",
                "set the address in providers.<api>.endpoint",
            )
        })?;
        entry.insert("endpoint".to_owned(), json!(endpoint));
        moves.moved.push((url, "spec.providers.inference.endpoint"));
    }
    for key in known.keys.iter().filter(|key| group.contains(**key)) {
        let position = position(env, key).unwrap_or_default();
        let reference = secret(&env[position]).ok_or_else(|| {
            Kept::new(
                key,
                "it does not refer to a Secret",
                "store the key in a Secret and refer to it in apiKey",
            )
        })?;
        if entry.insert("apiKey".to_owned(), reference).is_some() {
            let problem = "another variable already sets the API key";
            return Err(Kept::new(key, problem, "remove one of the two"));
        }
        let field = match known.api {
            "toolRuntime" => "spec.providers.toolRuntime.apiKey",
            _ => "spec.providers.inference.apiKey",
        };
        moves.moved.push((key, field));
    }
    for variable in known.models.iter().filter(|one| group.contains(**one)) {
        let name = literal(env, variable).ok_or_else(|| {
            let fix = "set the name in resources.models";
            Kept::new(variable, "its value is not a literal", fix)
        })?;
        moves.moved.push((variable, "spec.resources.models"));
        moves.models.push(Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("provider".to_owned(), json!(known.provider)),
        ]));
    }
    let is_moved = |name: &str| moves.moved.iter().any(|(moved, _)| *moved == name);
    if let Some(other) = group.iter().find(|name| !is_moved(name)) {
        let fix = format!(
            "set it in settings of a provider {:?} in spec.providers.{}, and remove the variables",
            known.provider, known.api
        );
        return Err(Kept::new(other, "no field replaces it", fix));
    }
    let is_configured = match known.url {
        Some(url) => group.contains(url),
        None => entry.contains_key("apiKey"),
    };
    if !is_configured {
        let needed = known
            .url
            .or(known.keys.first().copied())
            .unwrap_or_default();
        return Err(Kept {
            cause: None,
            problem: format!("{needed} is not set"),
            fix: format!(
                "add a provider {:?} to spec.providers.{}",
                known.provider, known.api
            ),
        });
    }
    for name in group {
        if let Some(reader) = reader(name, Some(known), variables) {
            let fix = format!(
                "keep the variables, or change the base configuration so that only provider {:?} reads them",
                known.provider
            );
            return Err(Kept::new(name, format!("{reader} reads it"), fix));
        }
    }
    Ok((entry, moves))
}

/// Moves `INFERENCE_MODEL`, if there is a provider for the model.
fn lift_any_model(
    env: &[Value],
    readings: &[Reading<'_>],
    has_inference: bool,
    moves: &mut Moves,
    diagnostics: &mut Collector,
) {
    let Some(position) = position(env, ANY_MODEL) else {
        return;
    };
    let variables = Variables { env, readings };
    let kept = match (literal(env, ANY_MODEL), reader(ANY_MODEL, None, &variables)) {
        (_, Some(reader)) => (
            format!("{reader} reads it"),
            "keep the variable, or change the base configuration",
        ),
        (None, _) => (
            "its value is not a literal".to_owned(),
            "set the name in resources.models",
        ),
        (Some(_), None) if !has_inference => (
            "the resource has no inference provider for the model".to_owned(),
            "add the provider to spec.providers.inference and the model to spec.resources.models",
        ),
        (Some(name), None) => {
            moves.moved.push((ANY_MODEL, "spec.resources.models"));
            moves
                .models
                .push(Map::from_iter([("name".to_owned(), json!(name))]));
            return;
        }
    };
    let (problem, fix) = kept;
    let path = env_path().index(position);
    keep(&path, ANY_MODEL, &problem, fix, diagnostics);
}

/// What else reads a variable, apart from the provider entry that the new provider replaces.
fn reader(name: &str, known: Option<&WellKnown>, variables: &Variables<'_>) -> Option<String> {
    let is_replaced = |reading: &Reading<'_>| {
        known
            .zip(reading.provider.as_ref())
            .is_some_and(|(known, entry)| {
                let api = match known.api {
                    "toolRuntime" => "tool_runtime",
                    api => api,
                };
                entry.api == api && entry.id == known.provider
            })
    };
    let of_base = variables
        .readings
        .iter()
        .find(|reading| reading.name == name && !is_replaced(reading))
        .map(|reading| format!("{} of the base configuration", reading.path));
    let reference = format!("$({name})");
    let of_variable = || {
        let refers = |variable: &&Value| {
            variable["value"]
                .as_str()
                .is_some_and(|value| value.contains(&reference))
        };
        let variable = variables.env.iter().find(refers)?;
        Some(format!("the variable {}", variable["name"].as_str()?))
    };
    of_base.or_else(of_variable)
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

/// Whether an item of `resources.models` already registers the model of a variable. Two variables often
/// have the same model.
fn registers(entry: &Value, model: &Map<String, Value>) -> bool {
    let name = entry.get("name").unwrap_or(entry);
    let is_at = |provider| entry.get("provider") == Some(provider);
    Some(name) == model.get("name") && model.get("provider").is_none_or(is_at)
}

fn env_path() -> FieldPath {
    FieldPath::spec().at(&["workload", "overrides", "env"])
}

/// Reports that no variable is moved.
fn keep_all(problem: &str, fix: &str, diagnostics: &mut Collector) {
    let warning = Diagnostic::warning(env_path(), format!("is not converted: {problem}"), fix);
    diagnostics.warnings.push(warning.with_code("not-lifted"));
}

/// Reports that a variable stays.
fn keep(path: &FieldPath, name: &str, problem: &str, fix: &str, diagnostics: &mut Collector) {
    let problem = format!("{name} is not converted: {problem}");
    let warning = Diagnostic::warning(path.clone(), problem, fix);
    diagnostics.warnings.push(warning.with_code("not-lifted"));
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

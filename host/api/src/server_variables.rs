//! Environment variables in a server configuration: `${env.NAME}` and its forms.
//!
//! In: a configuration as JSON. Out: which variables it reads, where, and which of them it needs. The
//! syntax is that of `llsd_env_expressions`; an empty variable counts as unset, and keys of objects are not
//! expanded.

use llsd_env_expressions::{expressions, whole};
use serde_json::Value;

pub use llsd_env_expressions::Form;

/// The `provider_id` of a provider that the server leaves out.
const DISABLED: &str = "__disabled__";
/// The ids of registered resources. The server leaves an entry out if its id is empty.
const RESOURCE_IDS: [&str; 7] = [
    "vector_store_id",
    "model_id",
    "shield_id",
    "dataset_id",
    "scoring_fn_id",
    "benchmark_id",
    "toolgroup_id",
];

/// One expression of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Name of the variable.
    pub name: &'a str,
    /// Its form.
    pub form: Form<'a>,
    /// The path in the configuration, for example `providers.inference[0].config.url`.
    pub path: String,
    /// The provider entry that contains the expression.
    pub provider: Option<ProviderEntry<'a>>,
}

/// A provider entry of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderEntry<'a> {
    /// The API as the server names it, for example `tool_runtime`.
    pub api: String,
    /// The id; if it is conditional, the id that applies if the variable is set.
    pub id: &'a str,
}

/// A variable that a configuration needs and a pod does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// Name of the variable.
    pub name: String,
    /// Where the configuration reads it first.
    pub path: String,
    /// The id of the provider that reads it, if the provider's own condition is not met.
    pub unused_provider: Option<String>,
}

/// Every expression of a configuration, in the order of the file.
pub fn readings(config: &Value) -> Vec<Reading<'_>> {
    let mut all = Vec::new();
    walk(
        config,
        &mut String::new(),
        None,
        &|_, _| Entry::Used,
        &mut |reading, _| {
            all.push(reading);
        },
    );
    all
}

/// The variables that a configuration needs and that are not set, each once, in the order of the file.
/// Entries that the server leaves out are skipped.
pub fn missing(config: &Value, is_set: &dyn Fn(&str) -> bool) -> Vec<Missing> {
    let mut all: Vec<Missing> = Vec::new();
    let state = |entry: &Value, path: &str| entry_state(entry, path, is_set);
    walk(
        config,
        &mut String::new(),
        None,
        &state,
        &mut |reading, unused| {
            if reading.form != Form::Bare || is_set(reading.name) {
                return;
            }
            let found = Missing {
                name: reading.name.to_owned(),
                path: reading.path,
                unused_provider: reading
                    .provider
                    .filter(|_| unused)
                    .map(|provider| provider.id.to_owned()),
            };
            match all.iter_mut().find(|one| one.name == found.name) {
                // A provider in use decides.
                Some(earlier)
                    if earlier.unused_provider.is_some() && found.unused_provider.is_none() =>
                {
                    *earlier = found;
                }
                Some(_) => {}
                None => all.push(found),
            }
        },
    );
    all
}

/// The text inside `${env.X:+text}`, or the text itself.
pub fn conditional_text(text: &str) -> &str {
    match whole(text).map(|expression| expression.form) {
        Some(Form::When(value)) => value,
        _ => text,
    }
}

/// Whether the server reads a list entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Used,
    /// A provider whose id is empty because its condition is not met.
    UnusedProvider,
    LeftOut,
}

fn entry_state(entry: &Value, path: &str, is_set: &dyn Fn(&str) -> bool) -> Entry {
    let resolved = |text: &str| resolve(text, is_set);
    let is_empty = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| !text.is_empty() && resolved(text).is_some_and(|it| it.is_empty()))
    };
    if path == "server.auth.provider_config" {
        return match is_empty(&entry["type"]) {
            true => Entry::LeftOut,
            false => Entry::Used,
        };
    }
    if RESOURCE_IDS.iter().any(|id| is_empty(&entry[*id])) {
        return Entry::LeftOut;
    }
    match entry["provider_id"].as_str() {
        Some(id) if resolved(id).as_deref() == Some(DISABLED) => Entry::LeftOut,
        Some(_) if is_empty(&entry["provider_id"]) => Entry::UnusedProvider,
        _ => Entry::Used,
    }
}

/// A string with its expressions replaced. `None` if the value of a variable, which is unknown, is part
/// of it, or a variable is missing.
fn resolve(text: &str, is_set: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut resolved = String::new();
    let mut end = 0;
    for expression in expressions(text) {
        resolved.push_str(text.get(end..expression.range.start)?);
        match (expression.form, is_set(expression.name)) {
            (Form::Bare, _) | (Form::Or(_), true) => return None,
            (Form::Or(value), false) | (Form::When(value), true) => resolved.push_str(value),
            (Form::When(_), false) => {}
        }
        end = expression.range.end;
    }
    resolved.push_str(text.get(end..)?);
    Some(resolved)
}

/// Calls `found` for each expression, with whether it is in an unused provider.
fn walk<'a>(
    value: &'a Value,
    path: &mut String,
    provider: Option<&(ProviderEntry<'a>, bool)>,
    state: &dyn Fn(&Value, &str) -> Entry,
    found: &mut dyn FnMut(Reading<'a>, bool),
) {
    match value {
        Value::String(text) => {
            for expression in expressions(text) {
                let reading = Reading {
                    name: expression.name,
                    form: expression.form,
                    path: path.clone(),
                    provider: provider.map(|(entry, _)| entry.clone()),
                };
                found(reading, provider.is_some_and(|(_, unused)| *unused));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let state_of_item = state(item, path);
                if state_of_item == Entry::LeftOut {
                    continue;
                }
                let unused = state_of_item == Entry::UnusedProvider;
                let own = provider_entry(path, item).map(|entry| (entry, unused));
                let parent = path.len();
                path.push_str(&format!("[{index}]"));
                walk(item, path, own.as_ref().or(provider), state, found);
                path.truncate(parent);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let parent = path.len();
                if parent > 0 {
                    path.push('.');
                }
                path.push_str(key);
                let is_auth = path == "server.auth.provider_config";
                if !(is_auth && state(value, path) == Entry::LeftOut) {
                    walk(value, path, provider, state, found);
                }
                path.truncate(parent);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The provider entry, if the list at `path` is `providers.<api>`.
fn provider_entry<'a>(path: &str, item: &'a Value) -> Option<ProviderEntry<'a>> {
    let api = path.strip_prefix("providers.")?;
    if api.contains(['.', '[']) {
        return None;
    }
    let id = item["provider_id"].as_str()?;
    let id = match whole(id).map(|expression| expression.form) {
        Some(Form::When(id) | Form::Or(id)) => id,
        _ => id,
    };
    let api = api.to_owned();
    Some(ProviderEntry { api, id })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(config: &Value, set: &[&str]) -> Vec<(String, String, bool)> {
        missing(config, &|name| set.contains(&name))
            .into_iter()
            .map(|one| (one.name, one.path, one.unused_provider.is_some()))
            .collect()
    }

    #[test]
    fn the_text_of_a_condition_is_found() {
        assert_eq!(conditional_text("${env.X:+vllm}"), "vllm");
        assert_eq!(conditional_text("vllm"), "vllm");
        assert_eq!(conditional_text("${env.X:=vllm}"), "${env.X:=vllm}");
    }

    #[test]
    fn a_variable_without_a_default_is_missing_once_with_its_first_place() {
        let config = json!({
            "providers": {"inference": [{"provider_id": "v", "config": {"url": "${env.URL}", "a": "${env.A:=}"}}]},
            "models": [{"model_id": "${env.MODEL}"}, {"model_id": "${env.MODEL}"}],
        });
        assert_eq!(
            names(&config, &[]),
            [
                (
                    "URL".to_owned(),
                    "providers.inference[0].config.url".to_owned(),
                    false
                ),
                ("MODEL".to_owned(), "models[0].model_id".to_owned(), false),
            ]
        );
        assert_eq!(names(&config, &["URL", "MODEL"]), []);
    }

    #[test]
    fn entries_that_the_server_leaves_out_need_nothing() {
        let config = json!({
            "providers": {"inference": [
                {"provider_id": "${env.ENABLE:=__disabled__}", "config": {"url": "${env.A}"}},
                {"provider_id": "__disabled__", "config": {"url": "${env.B}"}},
            ]},
            "models": [{"model_id": "${env.C:+c}", "provider_id": "${env.D}"}],
            "server": {"auth": {"provider_config": {"type": "${env.AUTH:+oauth2}", "url": "${env.E}"}}},
        });
        assert_eq!(names(&config, &[]), []);
        let found = names(&config, &["ENABLE", "C", "AUTH"]);
        let found: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        // The value of ENABLE is unknown, so its provider is not left out.
        assert_eq!(found, ["A", "D", "E"]);
    }

    #[test]
    fn a_provider_whose_condition_is_not_met_is_marked_unless_another_one_reads_the_variable() {
        let unused = json!({"provider_id": "${env.Y:+v}", "config": {"url": "${env.X}"}});
        let used = json!({"provider_id": "w", "config": {"url": "${env.X}"}});
        let config = |all: &[&Value]| json!({"providers": {"inference": all}});
        assert!(names(&config(&[&unused]), &[])[0].2);
        assert!(!names(&config(&[&unused]), &["Y"])[0].2);
        let both = names(&config(&[&unused, &used]), &[]);
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].1, "providers.inference[1].config.url");
        assert!(!both[0].2);
    }

    #[test]
    fn a_reading_names_the_provider_entry_that_contains_it() {
        let config = json!({
            "providers": {"tool_runtime": [{"provider_id": "${env.K:+search}", "config": {"key": "${env.K:=}"}}]},
            "other": "${env.K}",
        });
        let all = readings(&config);
        let entry = ProviderEntry {
            api: "tool_runtime".to_owned(),
            id: "search",
        };
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].provider, Some(entry));
        assert_eq!(all[2].provider, None);
        assert_eq!(all[2].form, Form::Bare);
    }
}

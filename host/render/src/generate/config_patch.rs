//! Merges `spec.configPatch` over a generated configuration.
//!
//! The host does this after `assemble`, so it works with every adapter. The rules are those of a JSON
//! merge patch (RFC 7396): objects are merged, `null` removes a key, everything else is replaced. Lists
//! of providers are merged by `provider_id`, because a patch of one provider must not repeat the others.
//! Merging twice gives the same as merging once.

use llsd_api::server_variables::conditional_text;
use llsd_api::{Diagnostic, FieldPath, choices};
use serde_json::{Map, Value};

/// The section whose lists are merged by [`ID`].
const PROVIDERS: &str = "providers";
const ID: &str = "provider_id";
const TYPE: &str = "provider_type";

/// Merges a patch into a configuration.
pub fn merge(config: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (key.as_str(), value) {
            (PROVIDERS, Value::Object(apis)) => merge_apis(config, apis),
            _ => merge_key(config, key, value),
        }
    }
}

/// Checks that every provider of the patch exists or is complete, before the patch is merged.
pub(super) fn check(config: &Map<String, Value>, patch: &Map<String, Value>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let none = Vec::new();
    for (api, list) in patch
        .get(PROVIDERS)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let existing = config
            .get(PROVIDERS)
            .and_then(|apis| apis.get(api))
            .and_then(Value::as_array)
            .unwrap_or(&none);
        for (position, entry) in list.as_array().into_iter().flatten().enumerate() {
            let has_type = entry.get(TYPE).is_some_and(Value::is_string);
            let Some(id) = entry.get(ID).and_then(Value::as_str) else {
                continue;
            };
            if has_type || existing.iter().any(|one| has_id(one, id)) {
                continue;
            }
            let path = FieldPath::spec()
                .at(&["configPatch", PROVIDERS, api])
                .index(position);
            let ids = existing
                .iter()
                .filter_map(|one| one.get(ID)?.as_str())
                .map(conditional_text);
            let problem =
                format!("the generated configuration has no {api} provider with the id {id:?}");
            let fix = format!(
                "{}; or add provider_type to add a provider",
                choices(id, ids)
            );
            problems.push(
                Diagnostic::error(path.field(ID), problem, fix).with_code("unknown-provider-id"),
            );
        }
    }
    problems
}

fn merge_apis(config: &mut Map<String, Value>, patch: &Map<String, Value>) {
    let mut apis = take_object(config, PROVIDERS);
    for (api, list) in patch {
        let Value::Array(entries) = list else {
            merge_key(&mut apis, api, list);
            continue;
        };
        let mut providers = match apis.get_mut(api).map(Value::take) {
            Some(Value::Array(providers)) => providers,
            _ => Vec::new(),
        };
        entries
            .iter()
            .for_each(|entry| merge_provider(&mut providers, entry));
        apis.insert(api.clone(), Value::Array(providers));
    }
    config.insert(PROVIDERS.to_owned(), Value::Object(apis));
}

/// Merges an entry into the provider with its id, or appends it. A provider keeps the condition of its id,
/// `${env.X:+id}`.
fn merge_provider(providers: &mut Vec<Value>, entry: &Value) {
    let id = entry.get(ID).and_then(Value::as_str);
    if let (Some(id), Value::Object(entry)) = (id, entry)
        && let Some(Value::Object(provider)) = providers.iter_mut().find(|one| has_id(one, id))
    {
        let others = entry.iter().filter(|(key, _)| *key != ID);
        others.for_each(|(key, value)| merge_key(provider, key, value));
        return;
    }
    let entry = without_nulls(entry);
    // Entries without an id are not part of checked resources; they are added once.
    if id.is_some() || !providers.contains(&entry) {
        providers.push(entry);
    }
}

fn has_id(provider: &Value, id: &str) -> bool {
    provider.is_object()
        && provider
            .get(ID)
            .and_then(Value::as_str)
            .is_some_and(|other| conditional_text(other) == conditional_text(id))
}

fn merge_key(target: &mut Map<String, Value>, key: &str, value: &Value) {
    match value {
        Value::Null => {
            target.shift_remove(key);
        }
        Value::Object(entries) => {
            let mut object = take_object(target, key);
            entries
                .iter()
                .for_each(|(key, value)| merge_key(&mut object, key, value));
            target.insert(key.to_owned(), Value::Object(object));
        }
        other => {
            target.insert(key.to_owned(), other.clone());
        }
    }
}

/// Takes the object at a key, which keeps its place. A value of another type is replaced by an empty object.
fn take_object(target: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match target.get_mut(key).map(Value::take) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The value without the keys that are null: what merging it over nothing gives.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut object = Map::new();
            entries
                .iter()
                .for_each(|(key, value)| merge_key(&mut object, key, value));
            Value::Object(object)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(config: Value, patch: Value) -> Value {
        let (Value::Object(mut config), Value::Object(patch)) = (config, patch) else {
            panic!("both must be objects");
        };
        merge(&mut config, &patch);
        Value::Object(config)
    }

    #[test]
    fn objects_are_merged_null_removes_and_lists_are_replaced() {
        let config =
            json!({"a": {"x": 1, "y": {"z": 1}}, "list": [1, 2], "gone": {"x": 1}, "text": "t"});
        let patch = json!({"a": {"y": {"z": 2, "w": null}, "n": {"k": null}}, "list": [3], "gone": null, "text": {"b": 1}});
        let expected =
            json!({"a": {"x": 1, "y": {"z": 2}, "n": {}}, "list": [3], "text": {"b": 1}});
        assert_eq!(merged(config, patch), expected);
    }

    #[test]
    fn providers_are_merged_by_id_and_keep_their_condition() {
        let config = json!({"providers": {"inference": [
            {"provider_id": "${env.VLLM_URL:+vllm}", "provider_type": "remote::vllm", "config": {"base_url": "a", "max_tokens": 1}},
            {"provider_id": "ollama", "provider_type": "remote::ollama", "config": {}},
        ], "eval": [{"provider_id": "e"}]}});
        let patch = json!({"providers": {
            "inference": [
                {"provider_id": "vllm", "config": {"max_tokens": null, "tls_verify": false}},
                {"provider_id": "new", "provider_type": "remote::new", "config": {"a": null}},
            ],
            "eval": null,
        }});
        let expected = json!({"providers": {"inference": [
            {"provider_id": "${env.VLLM_URL:+vllm}", "provider_type": "remote::vllm", "config": {"base_url": "a", "tls_verify": false}},
            {"provider_id": "ollama", "provider_type": "remote::ollama", "config": {}},
            {"provider_id": "new", "provider_type": "remote::new", "config": {}},
        ]}});
        assert_eq!(merged(config, patch), expected);
    }

    #[test]
    fn a_new_provider_needs_a_type() {
        let config = json!({"providers": {"inference": [{"provider_id": "${env.V:+vllm}"}]}});
        let patch = json!({"providers": {"inference": [
            {"provider_id": "vllm"}, {"provider_id": "vlm"}, {"provider_id": "x", "provider_type": "remote::x"},
        ]}});
        let (config, patch) = (config.as_object().unwrap(), patch.as_object().unwrap());
        let problems = check(config, patch);
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "spec.configPatch.providers.inference[1].provider_id: the generated configuration has no inference provider with the id \"vlm\"; did you mean \"vllm\"?; or add provider_type to add a provider"
        );
    }
}

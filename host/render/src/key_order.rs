//! The order of keys in the generated configuration.
//!
//! Plugins return canonical JSON, whose keys are sorted. Users compare the generated file with its
//! base, so keys have the order of the base, and new keys the order of the server's own files. Lists
//! are not reordered, because their order is significant.

use llsd_api::server_variables::conditional_text;
use serde_json::{Map, Value};

/// Keys in the order of the server's own files. Other keys come last, sorted.
const CONVENTION: [&str; 31] = [
    "version",
    "distro_name",
    "image_name",
    "container_image",
    "apis",
    "providers",
    "model_id",
    "shield_id",
    "toolgroup_id",
    "provider_id",
    "provider_type",
    "module",
    "provider_model_id",
    "provider_shield_id",
    "model_type",
    "type",
    "host",
    "port",
    "db",
    "user",
    "password",
    "namespace",
    "table_name",
    "backend",
    "config",
    "metadata",
    "storage",
    "backends",
    "stores",
    "registered_resources",
    "server",
];

/// Orders the keys of `value` like those of `base`, and new keys by [`CONVENTION`].
pub fn like_base(base: &Value, value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(object(base.as_object(), entries)),
        Value::Array(items) => {
            let counterparts = base.as_array().map(Vec::as_slice).unwrap_or_default();
            Value::Array(
                items
                    .into_iter()
                    .map(|item| like_base(counterpart(counterparts, &item), item))
                    .collect(),
            )
        }
        scalar => scalar,
    }
}

fn object(
    base: Option<&Map<String, Value>>,
    mut entries: Map<String, Value>,
) -> Map<String, Value> {
    let mut ordered = Map::with_capacity(entries.len());
    for (key, counterpart) in base.into_iter().flatten() {
        if let Some((key, value)) = entries.swap_remove_entry(key) {
            ordered.insert(key, like_base(counterpart, value));
        }
    }
    let mut rest: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| (rank(&key), key, value))
        .collect();
    rest.sort_by(|(rank, key, _), (other_rank, other_key, _)| {
        (rank, key).cmp(&(other_rank, other_key))
    });
    ordered.extend(
        rest.into_iter()
            .map(|(_, key, value)| (key, like_base(&Value::Null, value))),
    );
    ordered
}

fn rank(key: &str) -> usize {
    CONVENTION
        .iter()
        .position(|known| *known == key)
        .unwrap_or(CONVENTION.len())
}

/// The element of the base's list with the same id. An element without an id, such as a rule of an
/// access policy, has the order of an equal element.
fn counterpart<'a>(candidates: &'a [Value], item: &Value) -> &'a Value {
    const IDS: [&str; 4] = ["model_id", "shield_id", "toolgroup_id", "provider_id"];
    let own = IDS
        .iter()
        .find_map(|key| Some((*key, conditional_text(item[*key].as_str()?))));
    let same = |candidate: &&Value| match own {
        Some((key, id)) => candidate[key]
            .as_str()
            .is_some_and(|other| conditional_text(other) == id),
        None => *candidate == item,
    };
    candidates.iter().find(same).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_have_the_order_of_the_base_and_new_ones_that_of_the_server() {
        let base = json!({"version": 2, "zebra": 1, "providers": {"inference": [{"provider_id": "${env.A:+a}", "config": {"y": 1, "x": 2}}]}});
        let value = json!({
            "apple": 1,
            "providers": {"inference": [
                {"config": {"x": 2, "y": 1}, "provider_id": "a"},
                {"config": {}, "provider_id": "b", "provider_type": "remote::b"},
            ]},
            "version": 2,
            "zebra": 1,
        });
        assert_eq!(
            like_base(&base, value).to_string(),
            json!({
                "version": 2,
                "zebra": 1,
                "providers": {"inference": [
                    {"provider_id": "a", "config": {"y": 1, "x": 2}},
                    {"provider_id": "b", "provider_type": "remote::b", "config": {}},
                ]},
                "apple": 1,
            })
            .to_string()
        );
    }

    /// D10: `--output diff` showed the rules of an access policy with reordered keys.
    #[test]
    fn an_element_without_an_id_keeps_the_order_of_the_equal_element_of_the_base() {
        let rules = json!([
            {"permit": {"principal": "a", "actions": ["read"]}, "description": "b"},
            {"forbid": {"principal": "c", "actions": ["read"]}, "description": "d"},
        ]);
        let base = json!({"server": {"auth": {"access_policy": rules}}});
        let sorted = json!({"server": {"auth": {"access_policy": [
            {"description": "b", "permit": {"actions": ["read"], "principal": "a"}},
            {"description": "d", "forbid": {"actions": ["read"], "principal": "c"}},
        ]}}});
        assert_eq!(like_base(&base, sorted).to_string(), base.to_string());
    }
}

//! Compares a live object with the desired one.

use serde_json::Value;

/// Whether a live value contains every desired field. Further fields, such as the defaults that the
/// API server adds, do not count.
pub(super) fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| match live.get(key) {
                Some(live) => contains(live, desired),
                None => is_empty(desired),
            })
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(live, desired)| contains(live, desired))
        }
        _ => live == desired,
    }
}

/// Whether the API server omits a value when it stores the object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::contains;

    #[test]
    fn defaults_of_the_api_server_are_ignored_and_changed_values_are_not() {
        let desired = json!({"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}});
        let defaulted = json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "selector": {"a": "b"}, "type": "ClusterIP"}});
        assert!(contains(&defaulted, &desired));
        for edited in [
            json!({"spec": {"ports": [{"port": 2}], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [{"port": 1}]}}),
        ] {
            assert!(!contains(&edited, &desired), "{edited}");
        }
    }

    #[test]
    fn omitted_empty_values_are_ignored() {
        let desired = json!({"env": [{"name": "A", "value": ""}], "args": []});
        assert!(contains(&json!({"env": [{"name": "A"}]}), &desired));
        assert!(!contains(&json!({"env": []}), &desired));
    }
}

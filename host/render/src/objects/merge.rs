//! A three-way merge of JSON documents: applies the difference between two documents to a third one.
//!
//! Used to change one part of objects that were built by another release of the operator, or by
//! llama-stack-k8s-operator, and to leave everything else in them as it is.

use serde_json::{Map, Value};

/// Fields that identify an element of a list, in the order in which they are tried. A mount has a name,
/// too, but only its path is unique.
const KEYS: [&str; 4] = ["mountPath", "name", "containerPort", "port"];

/// Applies the difference between `old` and `new` to `current`.
pub(super) fn merge(old: &Value, new: &Value, current: &Value) -> Value {
    if old == new {
        return current.clone();
    }
    match (old, new, current) {
        (Value::Object(old), Value::Object(new), Value::Object(current)) => {
            Value::Object(merge_objects(old, new, current))
        }
        (Value::Array(old), Value::Array(new), Value::Array(current)) => {
            merge_lists(old, new, current).map_or_else(|| Value::Array(new.clone()), Value::Array)
        }
        _ => new.clone(),
    }
}

fn merge_objects(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let added = new.keys().filter(|key| !current.contains_key(*key));
    let keys = current.keys().chain(added);
    keys.filter_map(|key| {
        let merged = merge_optional(old.get(key), new.get(key), current.get(key))?;
        Some((key.clone(), merged))
    })
    .collect()
}

/// Merges lists whose elements have a unique key. `None` if they have none.
fn merge_lists(old: &[Value], new: &[Value], current: &[Value]) -> Option<Vec<Value>> {
    let key = KEYS
        .into_iter()
        .find(|key| [old, new, current].iter().all(|list| has_key(list, key)))?;
    let find = |list: &'_ [Value], id: &Value| list.iter().find(|one| one[key] == *id).cloned();
    let mut ids: Vec<&Value> = current.iter().map(|one| &one[key]).collect();
    // An added element follows the one that it follows in `new`.
    let mut next = 0;
    for id in new.iter().map(|one| &one[key]) {
        let position = ids.iter().position(|one| *one == id);
        next = 1 + position.unwrap_or_else(|| {
            ids.insert(next, id);
            next
        });
    }
    let merged = ids.into_iter().filter_map(|id| {
        let (old, new) = (find(old, id), find(new, id));
        merge_optional(old.as_ref(), new.as_ref(), find(current, id).as_ref())
    });
    Some(merged.collect())
}

/// Merges fields or elements that may be absent.
fn merge_optional(
    old: Option<&Value>,
    new: Option<&Value>,
    current: Option<&Value>,
) -> Option<Value> {
    match (old, new, current) {
        (old, new, current) if old == new => current.cloned(),
        (Some(old), Some(new), Some(current)) => Some(merge(old, new, current)),
        (_, new, _) => new.cloned(),
    }
}

/// Whether every element is an object with this key, and no two have the same.
fn has_key(list: &[Value], key: &str) -> bool {
    let mut seen = Vec::new();
    list.iter().all(|one| {
        let id = &one[key];
        let is_new = !id.is_null() && !seen.contains(&id);
        seen.push(id);
        is_new
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_part_that_changed_changes() {
        let template = |image: &str, ca: &str| {
            json!({
                "metadata": {"annotations": {"ca": ca}},
                "spec": {"containers": [{"name": "server", "image": image, "env": [{"name": "A", "value": "1"}]}]},
            })
        };
        let mut current = template("server:0.6", "1");
        current["spec"]["containers"][0]["command"] = json!(["/bin/sh"]);
        let merged = merge(
            &template("server:0.7", "1"),
            &template("server:0.7", "2"),
            &current,
        );
        let mut expected = current;
        expected["metadata"]["annotations"]["ca"] = json!("2");
        assert_eq!(merged, expected);
    }

    #[test]
    fn elements_are_added_changed_and_removed_by_their_key() {
        let mounts = |paths: &[(&str, &str)]| {
            let mount = |(path, name): &(&str, &str)| json!({"name": name, "mountPath": path});
            Value::Array(paths.iter().map(mount).collect())
        };
        let merged = merge(
            &mounts(&[("/a", "x"), ("/b", "y")]),
            &mounts(&[("/a", "z"), ("/c", "y")]),
            &mounts(&[("/own", "o"), ("/a", "x"), ("/b", "y")]),
        );
        assert_eq!(merged, mounts(&[("/own", "o"), ("/a", "z"), ("/c", "y")]));
        let merged = merge(
            &mounts(&[("/a", "x"), ("/b", "y")]),
            &mounts(&[("/first", "f"), ("/a", "x"), ("/c", "z"), ("/b", "y")]),
            &mounts(&[("/a", "x"), ("/own", "o"), ("/b", "y")]),
        );
        let in_order = [
            ("/first", "f"),
            ("/a", "x"),
            ("/c", "z"),
            ("/own", "o"),
            ("/b", "y"),
        ];
        assert_eq!(merged, mounts(&in_order));
    }

    #[test]
    fn a_list_without_keys_is_replaced_when_it_changes() {
        let (old, new) = (json!({"args": ["a"]}), json!({"args": ["b"]}));
        let current = json!({"args": ["own"], "kept": 1});
        assert_eq!(
            merge(&old, &new, &current),
            json!({"args": ["b"], "kept": 1})
        );
        assert_eq!(merge(&old, &old, &current), current);
    }

    #[test]
    fn a_field_that_both_lack_is_added_and_one_that_is_no_longer_wanted_is_removed() {
        let merged = merge(
            &json!({"gone": 1}),
            &json!({"new": 2}),
            &json!({"gone": 1, "own": 3}),
        );
        assert_eq!(merged, json!({"own": 3, "new": 2}));
    }
}

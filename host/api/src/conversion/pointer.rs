//! Reads and writes JSON objects by JSON pointer (RFC 6901).

use serde_json::{Map, Value};

use crate::limits::SPEC_DEPTH;

/// The value at a pointer.
pub(super) fn get<'a>(map: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let mut keys = keys(pointer);
    let mut value = map.get(&keys.next()?)?;
    for key in keys {
        value = value.as_object()?.get(&key)?;
    }
    Some(value)
}

/// Sets the value at a pointer and creates missing parents. Returns false if a parent is not an object, or
/// if the value would be nested deeper than a resource may be: pointers come from an annotation that anyone
/// can write.
pub(super) fn set(map: &mut Map<String, Value>, pointer: &str, value: Value) -> bool {
    let levels = pointer.split('/').count() - 1;
    if levels > SPEC_DEPTH || levels + depth(&value) > SPEC_DEPTH + 1 {
        return false;
    }
    let mut keys: Vec<String> = keys(pointer).collect();
    let Some(last) = keys.pop() else { return false };
    let mut parent = map;
    for key in keys {
        match parent
            .entry(key)
            .or_insert_with(|| Value::Object(Map::new()))
        {
            Value::Object(below) => parent = below,
            _ => return false,
        }
    }
    parent.insert(last, value);
    true
}

/// Removes the value at a pointer.
pub(super) fn remove(map: &mut Map<String, Value>, pointer: &str) {
    let mut keys: Vec<String> = keys(pointer).collect();
    let Some(last) = keys.pop() else { return };
    let mut parent = map;
    for key in keys {
        match parent.get_mut(&key) {
            Some(Value::Object(below)) => parent = below,
            _ => return,
        }
    }
    parent.shift_remove(&last);
}

/// The pointer to the key of an object.
pub(super) fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The levels of lists and objects in a parsed value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn keys(pointer: &str) -> impl Iterator<Item = String> {
    pointer
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
}

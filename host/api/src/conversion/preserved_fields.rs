//! Preserves fields that the other version does not have.
//!
//! The conversion translates a resource, translates it back and compares the result with the source.
//! It stores the differences in an annotation and restores them when the resource is converted back.
//! This module works on any JSON and does not know the fields.

use serde_json::{Map, Value, json};

use super::annotations::{CONFLICTS, HOME, attach, detach};
use super::field_table::COUPLED;
use super::pointer;
use super::translation::Direction;

/// Translates a resource, restores the fields preserved in its annotation and preserves the fields
/// that the target does not have.
pub(super) fn convert(mut source: Map<String, Value>, direction: &Direction) -> Map<String, Value> {
    let mut preserved = detach(&mut source, direction.source_annotation);
    let is_home = preserved
        .as_mut()
        .is_none_or(|fields| fields.shift_remove(HOME).is_some());
    // It is the same in both versions, and often larger than the rest.
    let metadata = source.get_mut("metadata").map(Value::take);
    let mut target = (direction.translate)(&source);
    let conflicts = restore_all(&mut target, &preserved.unwrap_or_default());
    let mut lost = lost_fields(&source, &target, direction);
    if let Some(metadata) = metadata {
        target.insert("metadata".to_owned(), metadata);
    }
    if is_home {
        attach(&mut target, direction.target_annotation, lost);
    } else if !lost.is_empty() {
        lost.insert(HOME.to_owned(), json!({}));
        attach(&mut target, direction.target_annotation, lost);
    }
    if direction.records_conflicts && !conflicts.is_empty() {
        // Earlier conflicts stay until the user removes the annotation.
        let mut all = detach(&mut target, CONFLICTS).unwrap_or_default();
        all.extend(conflicts);
        attach(&mut target, CONFLICTS, all);
    }
    target
}

/// Restores preserved fields. Returns those whose field or sibling was edited, with their values.
fn restore_all(
    target: &mut Map<String, Value>,
    preserved: &Map<String, Value>,
) -> Map<String, Value> {
    let mut conflicts = Map::new();
    if preserved.is_empty() {
        return conflicts;
    }
    let translated = target.clone();
    // In reverse order, so that fields come before the object that contains them: the object may exist
    // only because of the restored fields.
    for (pointer, entry) in preserved.iter().rev() {
        if !has_same_sibling(&translated, pointer, entry) || !restore(target, pointer, entry) {
            conflicts.insert(
                pointer.clone(),
                entry.get("is").cloned().unwrap_or_default(),
            );
        }
    }
    conflicts
}

/// The fields of the source that the target loses, by pointer.
fn lost_fields(
    source: &Map<String, Value>,
    target: &Map<String, Value>,
    direction: &Direction,
) -> Map<String, Value> {
    let returned = (direction.translate_back)(target);
    let mut lost = Map::new();
    for part in ["spec", "status"] {
        differences(
            returned.get(part),
            source.get(part),
            &format!("/{part}"),
            direction.is_source_group,
            &mut lost,
        );
    }
    for (field, sibling) in COUPLED {
        if let Some(Value::Object(entry)) = lost.get_mut(*field) {
            let beside = pointer::get(&returned, sibling);
            entry.insert("beside".to_owned(), beside.cloned().unwrap_or_default());
        }
    }
    lost
}

/// Whether the sibling that a field depends on has not changed.
fn has_same_sibling(translated: &Map<String, Value>, field: &str, entry: &Value) -> bool {
    let sibling = COUPLED
        .iter()
        .find(|(coupled, _)| *coupled == field)
        .map(|(_, sibling)| *sibling);
    match (sibling, entry.get("beside")) {
        (Some(sibling), Some(beside)) => {
            pointer::get(translated, sibling).unwrap_or(&Value::Null) == beside
        }
        _ => true,
    }
}

/// Restores one preserved field. Returns false if an edit changed the field to another value.
fn restore(target: &mut Map<String, Value>, pointer: &str, entry: &Value) -> bool {
    let (was, is) = (entry.get("was"), entry.get("is"));
    let now = pointer::get(target, pointer);
    if now == was {
        return match is {
            Some(value) => pointer::set(target, pointer, value.clone()),
            None => {
                pointer::remove(target, pointer);
                true
            }
        };
    }
    // Not a conflict: the field already has the value, or an empty object got fields.
    let is_empty_object = |value: Option<&Value>| value.is_some_and(|value| value == &json!({}));
    let had_no_fields = is_empty_object(is) || (is.is_none() && is_empty_object(was));
    now == is || (had_no_fields && now.is_some_and(Value::is_object))
}

/// Adds the differences between two values to `found`, by pointer. Objects with fields of the table
/// are compared field by field, so that an edit of one field does not affect the others.
fn differences(
    translated: Option<&Value>,
    original: Option<&Value>,
    pointer: &str,
    is_group: fn(&str) -> bool,
    found: &mut Map<String, Value>,
) {
    if translated == original {
        return;
    }
    let empty = Map::new();
    match (translated, original) {
        (None | Some(Value::Object(_)), Some(Value::Object(original)))
            if is_group(pointer) && !(translated.is_none() && original.is_empty()) =>
        {
            let translated = translated.and_then(Value::as_object).unwrap_or(&empty);
            let removed = translated.keys().filter(|key| !original.contains_key(*key));
            for key in original.keys().chain(removed) {
                differences(
                    translated.get(key),
                    original.get(key),
                    &pointer::child(pointer, key),
                    is_group,
                    found,
                );
            }
        }
        (Some(Value::Object(fields)), None) if is_group(pointer) && !fields.is_empty() => {
            for (key, value) in fields {
                differences(
                    Some(value),
                    None,
                    &pointer::child(pointer, key),
                    is_group,
                    found,
                );
            }
            found.insert(pointer.to_owned(), json!({ "was": {} }));
        }
        _ => {
            let mut entry = Map::new();
            entry.extend(translated.map(|value| ("was".to_owned(), value.clone())));
            entry.extend(original.map(|value| ("is".to_owned(), value.clone())));
            found.insert(pointer.to_owned(), Value::Object(entry));
        }
    }
}

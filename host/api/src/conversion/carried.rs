//! Carried fields: what the table of moves does not bring across.
//!
//! Works on any JSON and knows nothing of the fields: it compares a resource with what comes back
//! of it, and keeps the difference.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Direction;
use super::moves::COUPLED;

/// Annotation of a v1alpha2 resource: what only v1alpha1 can say about it.
pub const CARRIED_V1ALPHA1: &str = "llamastack.io/v1alpha1-fields";
/// Annotation of a v1alpha1 resource: what only v1alpha2 can say about it.
pub const CARRIED_V1ALPHA2: &str = "llamastack.io/v1alpha2-fields";
/// Annotation of a v1alpha2 resource: what gave way to an edit through v1alpha1, by place.
pub const CONFLICTS: &str = "llamastack.io/conversion-conflicts";

/// In the annotation: that the resource had an empty map of annotations before.
const EMPTY_ANNOTATIONS: &str = "annotations";
/// In the annotation: that the resource was made in the version that bears it. Without this word it
/// was made in the other one, which therefore always leaves its annotation.
const HOME: &str = "home";

/// Whether a v1alpha2 resource was made through v1alpha1, whatever was edited since. `annotations`
/// are its own.
pub fn was_made_in_v1alpha1(annotations: &BTreeMap<String, String>) -> bool {
    let carried = annotations.get(CARRIED_V1ALPHA1);
    let fields = carried.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    fields.is_some_and(|fields| !fields.contains_key(HOME))
}

/// Translates, puts back what was brought, and takes along what would be lost.
pub(super) fn exchange(
    mut source: Map<String, Value>,
    direction: &Direction,
) -> Map<String, Value> {
    let mut brought = detach(&mut source, direction.brought);
    let is_home = brought
        .as_mut()
        .is_none_or(|fields| fields.shift_remove(HOME).is_some());
    let mut target = (direction.translate)(&source);
    let mut conflicts = Map::new();
    let translated = target.clone();
    // Fields before the group around them, which may only have come to hold them.
    for (place, entry) in brought.iter().flatten().rev() {
        if !stands_beside(&translated, place, entry) || !restore(&mut target, place, entry) {
            conflicts.insert(place.clone(), entry.get("is").cloned().unwrap_or_default());
        }
    }
    let returned = (direction.back)(&target);
    let mut taken = Map::new();
    for part in ["spec", "status"] {
        let place = format!("/{part}");
        differences(
            returned.get(part),
            source.get(part),
            &place,
            direction.source_groups,
            &mut taken,
        );
    }
    for (field, sibling) in COUPLED {
        if let Some(Value::Object(entry)) = taken.get_mut(*field) {
            entry.insert(
                "beside".to_owned(),
                place(&returned, sibling).cloned().unwrap_or_default(),
            );
        }
    }
    if is_home {
        attach(&mut target, direction.taken, taken);
    } else if !taken.is_empty() {
        taken.insert(HOME.to_owned(), json!({}));
        attach(&mut target, direction.taken, taken);
    }
    if direction.reports_conflicts && !conflicts.is_empty() {
        // Earlier ones stay until somebody has read them and removes the annotation.
        let mut all = detach(&mut target, CONFLICTS).unwrap_or_default();
        all.extend(conflicts);
        attach(&mut target, CONFLICTS, all);
    }
    target
}

/// Makes v1alpha2 the version that a v1alpha2 resource was made in.
pub(super) fn settle(resource: &mut Map<String, Value>) {
    if let Some(mut fields) = detach(resource, CARRIED_V1ALPHA1)
        && !fields.is_empty()
    {
        fields.insert(HOME.to_owned(), json!({}));
        attach(resource, CARRIED_V1ALPHA1, fields);
    }
}

/// Whether the sibling without which a field means nothing is still what it was.
fn stands_beside(translated: &Map<String, Value>, field: &str, entry: &Value) -> bool {
    let sibling = COUPLED
        .iter()
        .find(|(coupled, _)| *coupled == field)
        .map(|(_, sibling)| *sibling);
    match (sibling, entry.get("beside")) {
        (Some(sibling), Some(beside)) => {
            place(translated, sibling).unwrap_or(&Value::Null) == beside
        }
        _ => true,
    }
}

/// What stands at a place given as a JSON pointer.
pub(super) fn place<'a>(map: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let mut keys = keys(pointer);
    let mut at = map.get(&keys.next()?)?;
    for key in keys {
        at = at.as_object()?.get(&key)?;
    }
    Some(at)
}

/// Puts a value at a place, with the objects above it. False where something else is in the way.
pub(super) fn put(map: &mut Map<String, Value>, pointer: &str, value: Value) -> bool {
    let mut keys: Vec<String> = keys(pointer).collect();
    let Some(last) = keys.pop() else { return false };
    let mut at = map;
    for key in keys {
        match at.entry(key).or_insert_with(|| Value::Object(Map::new())) {
            Value::Object(below) => at = below,
            _ => return false,
        }
    }
    at.insert(last, value);
    true
}

/// Takes away what stands at a place.
pub(super) fn take(map: &mut Map<String, Value>, pointer: &str) {
    let mut keys: Vec<String> = keys(pointer).collect();
    let Some(last) = keys.pop() else { return };
    let mut at = map;
    for key in keys {
        match at.get_mut(&key) {
            Some(Value::Object(below)) => at = below,
            _ => return,
        }
    }
    at.shift_remove(&last);
}

fn keys(pointer: &str) -> impl Iterator<Item = String> {
    pointer
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
}

fn below(place: &str, key: &str) -> String {
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Puts one carried field back. False when an edit changed its place to something else.
fn restore(target: &mut Map<String, Value>, pointer: &str, entry: &Value) -> bool {
    let (was, is) = (entry.get("was"), entry.get("is"));
    let now = place(target, pointer);
    if now == was {
        return match is {
            Some(value) => put(target, pointer, value.clone()),
            None => {
                take(target, pointer);
                true
            }
        };
    }
    // Already so, or the group that was empty or absent now has fields.
    let is_bare = |value: Option<&Value>| value.is_some_and(|value| value == &json!({}));
    let had_no_fields = is_bare(is) || (is.is_none() && is_bare(was));
    now == is || (had_no_fields && now.is_some_and(Value::is_object))
}

/// Records where `want` differs from `have`. Groups of fields are compared field by field, so that
/// an edit of one leaves the others alone.
fn differences(
    have: Option<&Value>,
    want: Option<&Value>,
    place: &str,
    is_group: fn(&str) -> bool,
    found: &mut Map<String, Value>,
) {
    if have == want {
        return;
    }
    let nothing = Map::new();
    match (have, want) {
        (None | Some(Value::Object(_)), Some(Value::Object(want)))
            if is_group(place) && !(have.is_none() && want.is_empty()) =>
        {
            let have = have.and_then(Value::as_object).unwrap_or(&nothing);
            let gone = have.keys().filter(|key| !want.contains_key(*key));
            for key in want.keys().chain(gone) {
                differences(
                    have.get(key),
                    want.get(key),
                    &below(place, key),
                    is_group,
                    found,
                );
            }
        }
        (Some(Value::Object(fields)), None) if is_group(place) && !fields.is_empty() => {
            for (key, value) in fields {
                differences(Some(value), None, &below(place, key), is_group, found);
            }
            found.insert(place.to_owned(), json!({ "was": {} }));
        }
        _ => {
            let mut entry = Map::new();
            entry.extend(have.map(|value| ("was".to_owned(), value.clone())));
            entry.extend(want.map(|value| ("is".to_owned(), value.clone())));
            found.insert(place.to_owned(), Value::Object(entry));
        }
    }
}

/// Removes our annotation and reads it. One that is not ours to read stays where it is.
fn detach(resource: &mut Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    let metadata = resource.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let Value::Object(mut fields) = serde_json::from_str(annotations.get(name)?.as_str()?).ok()?
    else {
        return None;
    };
    annotations.shift_remove(name);
    let was_empty = fields.shift_remove(EMPTY_ANNOTATIONS).is_some();
    if annotations.is_empty() && !was_empty {
        metadata.shift_remove("annotations");
    }
    Some(fields)
}

/// Writes our annotation.
fn attach(resource: &mut Map<String, Value>, name: &str, mut fields: Map<String, Value>) {
    let metadata = resource.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if metadata.get("annotations") == Some(&json!({})) {
        fields.insert(EMPTY_ANNOTATIONS.to_owned(), json!({}));
    }
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        let mut fields = Value::Object(fields);
        fields.sort_all_objects();
        annotations.insert(name.to_owned(), Value::from(fields.to_string()));
    }
}

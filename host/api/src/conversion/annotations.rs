//! The annotations that preserve fields of the other version.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Annotation of a v1alpha2 resource: the fields that only v1alpha1 has.
pub const V1ALPHA1_FIELDS: &str = "llamastack.io/v1alpha1-fields";
/// Annotation of a v1alpha1 resource: the fields that only v1alpha2 has.
pub const V1ALPHA2_FIELDS: &str = "llamastack.io/v1alpha2-fields";
/// Annotation of a v1alpha2 resource: the values that an edit through v1alpha1 replaced, by pointer.
pub const CONFLICTS: &str = "llamastack.io/conversion-conflicts";

/// Key in the annotation: the resource had an empty map of annotations.
const EMPTY_ANNOTATIONS: &str = "annotations";
/// Key in the annotation: the resource was created in the version that it has now. Without this key
/// it was created in the other version.
pub(super) const HOME: &str = "home";

/// Whether a v1alpha2 resource with these annotations was created through v1alpha1, even if it was
/// edited through v1alpha2 since.
pub fn was_made_in_v1alpha1(annotations: &BTreeMap<String, String>) -> bool {
    let annotation = annotations.get(V1ALPHA1_FIELDS);
    let fields = annotation.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    fields.is_some_and(|fields| !fields.contains_key(HOME))
}

/// Marks a v1alpha2 resource as created in v1alpha2.
pub(super) fn mark_as_v1alpha2(resource: &mut Map<String, Value>) {
    if let Some(mut fields) = detach(resource, V1ALPHA1_FIELDS)
        && !fields.is_empty()
    {
        fields.insert(HOME.to_owned(), json!({}));
        attach(resource, V1ALPHA1_FIELDS, fields);
    }
}

/// Removes an annotation and parses it. An annotation that is not a JSON object stays.
pub(super) fn detach(resource: &mut Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
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

/// Writes an annotation.
pub(super) fn attach(
    resource: &mut Map<String, Value>,
    name: &str,
    mut fields: Map<String, Value>,
) {
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

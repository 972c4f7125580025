//! Pieces of schema that derived types cannot say by themselves.
//!
//! The API server demands that every node has a type or says that it keeps unknown content; a CEL
//! rule sees only what has a type. What the specification lets users write in two shapes is
//! therefore typeless here, kept as it was sent, and read by `checked`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// A node that may be of any type and loses nothing: text or object, object or list.
pub(crate) fn typeless(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of at most 256 entries, each text or object.
pub(crate) fn typeless_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": { "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// An object with any content.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A whole number or a text such as `50%`.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// An amount such as `10Gi`, `0.5` or `2`.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "pattern": QUANTITY, "x-kubernetes-int-or-string": true })
}

/// What Kubernetes takes as a quantity.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A type of Kubernetes itself, without its descriptions: they are most of what a definition would
/// weigh, and `kubectl explain pod.spec` has them.
pub(crate) fn kubernetes<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>().to_value();
    trim(&mut schema);
    schema.try_into().unwrap_or_default()
}

/// A list of at most `MOST` of them.
pub(crate) fn kubernetes_list<T: JsonSchema, const MOST: usize>(
    generator: &mut SchemaGenerator,
) -> Schema {
    let items = kubernetes::<T>(generator);
    json_schema!({ "type": "array", "maxItems": MOST, "items": items })
}

/// A list without a bound, as the older version has it.
pub(crate) fn unbounded_kubernetes_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let items = kubernetes::<T>(generator);
    json_schema!({ "type": "array", "items": items })
}

/// The conditions of a status, of which each type stands once.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let items = kubernetes::<Condition>(generator);
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": items,
    })
}

fn trim(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A property may be called `description`; then it is an object, not a text.
            if let Some(Value::String(text)) = map.get("description") {
                if text.starts_with("Quantity is") {
                    map.insert("pattern".to_owned(), Value::from(QUANTITY));
                }
                map.shift_remove("description");
            }
            // Metadata of a claim template: what only the API server writes is nobody's wish.
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                properties.shift_remove("managedFields");
            }
            map.values_mut().for_each(trim);
        }
        Value::Array(items) => items.iter_mut().for_each(trim),
        _ => {}
    }
}

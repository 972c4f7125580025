//! Schemas of fields that cannot be derived from their Rust types.
//!
//! The API server requires that every node has a type or preserves unknown fields, and CEL rules can use
//! only typed nodes. Fields that the specification allows in two shapes are therefore untyped: the API
//! server stores them as sent, and `checked` reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// A node of any type: string or object, object or list.
pub(crate) fn untyped(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of at most 256 items of any type.
pub(crate) fn untyped_list(_: &mut SchemaGenerator) -> Schema {
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

/// At most 64 names with short strings.
pub(crate) fn short_strings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "minLength": 1, "maxLength": 253 },
    })
}

/// An integer or a string such as `50%`.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// A quantity such as `10Gi`, `0.5` or `2`.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "pattern": QUANTITY, "x-kubernetes-int-or-string": true })
}

/// The pattern of Kubernetes quantities.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The schema of a Kubernetes type, without descriptions. They would be most of the size of the
/// CustomResourceDefinition, and `kubectl explain pod.spec` shows them.
pub(crate) fn kubernetes<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>().to_value();
    trim(&mut schema);
    schema.try_into().unwrap_or_default()
}

/// A list of at most `MAX` Kubernetes types.
pub(crate) fn kubernetes_list<T: JsonSchema, const MAX: usize>(
    generator: &mut SchemaGenerator,
) -> Schema {
    let items = kubernetes::<T>(generator);
    json_schema!({ "type": "array", "maxItems": MAX, "items": items })
}

/// A list without a bound, as in v1alpha1 of llama-stack-k8s-operator.
pub(crate) fn unbounded_kubernetes_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let items = kubernetes::<T>(generator);
    json_schema!({ "type": "array", "items": items })
}

/// The conditions of a status, with a unique `type`.
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
            // A property may be called `description`; then it is an object, not a string.
            if let Some(Value::String(text)) = map.get("description") {
                if text.starts_with("Quantity is") {
                    map.insert("pattern".to_owned(), Value::from(QUANTITY));
                }
                map.shift_remove("description");
            }
            // In the metadata of a volume claim template, only the API server sets managedFields.
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                properties.shift_remove("managedFields");
            }
            map.values_mut().for_each(trim);
        }
        Value::Array(items) => items.iter_mut().for_each(trim),
        _ => {}
    }
}

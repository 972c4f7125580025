//! Pieces of schema that derived types cannot say by themselves.
//!
//! The API server demands that every node has a type or says that it keeps unknown content; a CEL
//! rule sees only what has a type. What the specification lets users write in two shapes is
//! therefore typeless here, kept as it was sent, and read by `checked`.

use schemars::{Schema, SchemaGenerator, json_schema};

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
    json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true })
}

/// An amount such as `10Gi`, `0.5` or `2`.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// What Kubernetes takes as a quantity.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

//! The type of a schema node, and the values that match it.

use serde_json::Value;

/// The type of a schema node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaType {
    Any,
    Object,
    List,
    String,
    Integer,
    Number,
    Boolean,
    IntegerOrString,
}

impl SchemaType {
    pub(super) fn of(schema: &Value) -> Self {
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::IntegerOrString;
        }
        match schema["type"].as_str() {
            Some("object") => Self::Object,
            Some("array") => Self::List,
            Some("string") => Self::String,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            _ => Self::Any,
        }
    }

    pub(super) fn matches(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            // A quantity may be written as a decimal number: `cpu: 0.5`.
            Self::IntegerOrString => value.is_number() || value.is_string(),
        }
    }

    /// The type with its article, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Object => "an object",
            Self::List => "a list",
            Self::String => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::IntegerOrString => "a number or a string",
        }
    }
}

/// A value that can be deserialized as the type of `schema`.
pub(super) fn default_value(schema: &Value) -> Value {
    match SchemaType::of(schema) {
        SchemaType::Object => {
            let required = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            required
                .map(|name| (name.to_owned(), default_value(&schema["properties"][name])))
                .collect()
        }
        SchemaType::List => Value::Array(Vec::new()),
        SchemaType::Integer | SchemaType::Number => Value::from(0),
        SchemaType::Boolean => Value::Bool(false),
        SchemaType::String | SchemaType::IntegerOrString => Value::String(String::new()),
        SchemaType::Any => Value::Null,
    }
}

//! Validates JSON against a structural schema of a CustomResourceDefinition, as the API server does.
//!
//! The schema is the only source of rules, so that the command line reports the same errors as the
//! cluster. Validation reports an error for each unknown field, wrong type, missing field and violated
//! bound. It also repairs the JSON: a value that cannot be deserialized is removed or replaced by a
//! default. The semantic checks can then run on the rest of the resource.

mod bounds;
mod schema_type;

use serde_json::{Map, Value};

use self::schema_type::SchemaType;
use crate::diagnostic::{Collector, choices};
use crate::field_path::FieldPath;
use crate::json_type::type_name;

/// Validates `value` against `schema`, repairs it and returns the repaired fields.
pub(crate) fn validate(
    value: &mut Value,
    schema: &Value,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Vec<FieldPath> {
    let mut validation = Validation {
        diagnostics,
        repaired: Vec::new(),
    };
    if !validation.node(value, schema, path) {
        *value = schema_type::default_value(schema);
        validation.repaired.push(path.clone());
    }
    validation.repaired
}

/// The state of one validation.
struct Validation<'a> {
    diagnostics: &'a mut Collector,
    repaired: Vec<FieldPath>,
}

impl Validation<'_> {
    /// Returns false if the value cannot be deserialized, so that the caller must replace it.
    fn node(&mut self, value: &mut Value, schema: &Value, path: &FieldPath) -> bool {
        if value.is_null() && schema["nullable"] != true {
            self.diagnostics
                .error(path, "is null", "set a value, or remove the field");
            return false;
        }
        let expected = SchemaType::of(schema);
        if expected == SchemaType::Any {
            return true;
        }
        if !expected.matches(value) {
            self.wrong_type(expected, value, path);
            return false;
        }
        if !self.check_enum(value, schema, path) {
            return false;
        }
        self.check_quantity(value, schema, path);
        match value {
            Value::Object(map) => self.object(map, schema, path),
            Value::Array(items) => return self.list(items, schema, path),
            Value::String(text) => self.check_length(
                text.chars().count(),
                schema,
                path,
                ("minLength", "maxLength"),
                "character",
            ),
            Value::Number(number) => {
                self.check_range(number.as_f64().unwrap_or(f64::NAN), schema, path);
            }
            Value::Bool(_) | Value::Null => {}
        }
        true
    }

    fn wrong_type(&mut self, expected: SchemaType, value: &Value, path: &FieldPath) {
        let fix = match (expected, value) {
            (SchemaType::String, Value::Number(_) | Value::Bool(_)) => {
                format!("put it in quotes: \"{value}\"")
            }
            _ => format!("write {}", expected.name()),
        };
        let problem = format!("must be {}, not {}", expected.name(), type_name(value));
        self.diagnostics.error(path, problem, fix);
    }

    fn object(&mut self, map: &mut Map<String, Value>, schema: &Value, path: &FieldPath) {
        self.check_length(
            map.len(),
            schema,
            path,
            ("minProperties", "maxProperties"),
            "item",
        );
        let mut invalid = Vec::new();
        for (key, value) in map.iter_mut() {
            let field = path.field(key);
            if !self.property(key, value, schema, &field) {
                invalid.push((key.clone(), field));
            }
        }
        for (key, field) in invalid {
            map.remove(&key);
            self.repaired.push(field);
        }
        self.add_required(map, schema, path);
    }

    /// Validates one property of an object. Returns false if it must be removed.
    fn property(
        &mut self,
        key: &str,
        value: &mut Value,
        schema: &Value,
        field: &FieldPath,
    ) -> bool {
        let properties = schema["properties"].as_object();
        let additional = schema
            .get("additionalProperties")
            .filter(|additional| additional.is_object());
        match properties.and_then(|known| known.get(key)).or(additional) {
            Some(schema) => self.node(value, schema, field),
            None if schema["x-kubernetes-preserve-unknown-fields"] == true => true,
            None => {
                let names = properties
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str());
                self.diagnostics
                    .error(field, "unknown field", choices(key, names));
                false
            }
        }
    }

    /// Reports required properties that are missing, and adds default values for them.
    fn add_required(&mut self, map: &mut Map<String, Value>, schema: &Value, path: &FieldPath) {
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if map.contains_key(name) {
                continue;
            }
            let field = path.field(name);
            let schema = &schema["properties"][name];
            if !self.repaired.contains(&field) {
                let fix = format!("add it: {}", SchemaType::of(schema).name());
                self.diagnostics.error(&field, "is missing", fix);
                self.repaired.push(field);
            }
            map.insert(name.to_owned(), schema_type::default_value(schema));
        }
    }

    fn list(&mut self, items: &mut [Value], schema: &Value, path: &FieldPath) -> bool {
        self.check_length(items.len(), schema, path, ("minItems", "maxItems"), "item");
        let mut is_valid = true;
        for (position, item) in items.iter_mut().enumerate() {
            is_valid &= self.node(item, &schema["items"], &path.index(position));
        }
        self.check_duplicates(items, schema, path);
        // Removing one item would change the indexes of later items, so the whole list is replaced.
        is_valid
    }
}

#[cfg(test)]
mod tests;

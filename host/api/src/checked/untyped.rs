//! Reads JSON nodes that the schema leaves untyped, because they may have one of several shapes.
//!
//! The API server cannot check inside these nodes, so types, unknown keys and bounds are checked
//! here. A reader returns `None` after a problem, adds an error and lets the caller continue.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::diagnostic::{Collector, choices};
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names::NameError;

/// A JSON object whose keys are all known.
pub(super) struct UntypedObject<'a> {
    pub(super) path: FieldPath,
    map: &'a Map<String, Value>,
}

impl<'a> UntypedObject<'a> {
    /// Adds an error for every key that is not in `known`.
    pub(super) fn open(
        map: &'a Map<String, Value>,
        path: FieldPath,
        known: &[&str],
        diagnostics: &mut Collector,
    ) -> Self {
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            diagnostics.error(
                &path.field(key),
                "unknown field",
                choices(key, known.iter().copied()),
            );
        }
        Self { path, map }
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub(super) fn field(&self, key: &str) -> FieldPath {
        self.path.field(key)
    }

    /// A string that passes `check`.
    pub(super) fn string(
        &self,
        key: &str,
        check: impl Fn(&str) -> Result<(), NameError>,
        fix: &str,
        diagnostics: &mut Collector,
    ) -> Option<String> {
        read_string(self.value(key)?, &self.field(key), check, fix, diagnostics)
    }

    /// Like [`Self::string`], with an error when the key is absent.
    pub(super) fn required_string(
        &self,
        key: &str,
        check: impl Fn(&str) -> Result<(), NameError>,
        fix: &str,
        diagnostics: &mut Collector,
    ) -> Option<String> {
        if self.value(key).is_none() {
            diagnostics.error(&self.field(key), "is missing", fix);
        }
        self.string(key, check, fix, diagnostics)
    }

    /// An integer from 1 to `max`.
    pub(super) fn positive_integer(
        &self,
        key: &str,
        max: u64,
        diagnostics: &mut Collector,
    ) -> Option<u64> {
        let value = self.value(key)?;
        let number = value.as_u64().filter(|number| (1..=max).contains(number));
        if number.is_none() {
            diagnostics.error(
                &self.field(key),
                format!("{value} is not an integer from 1 to {max}"),
                format!("use an integer from 1 to {max}"),
            );
        }
        number
    }

    /// A boolean.
    pub(super) fn boolean(&self, key: &str, diagnostics: &mut Collector) -> Option<bool> {
        let value = self.value(key)?;
        if !value.is_boolean() {
            let problem = format!("must be a boolean, not {}", type_name(value));
            diagnostics.error(
                &self.field(key),
                problem,
                "write true or false, without quotes",
            );
        }
        value.as_bool()
    }

    /// An object with any content; empty when absent.
    pub(super) fn free_object(&self, key: &str, diagnostics: &mut Collector) -> Map<String, Value> {
        match self.value(key) {
            None => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(other) => {
                let problem = format!("must be an object, not {}", type_name(other));
                diagnostics.error(&self.field(key), problem, "use name: value pairs");
                Map::new()
            }
        }
    }
}

/// Reads a string that passes `check`.
pub(super) fn read_string(
    value: &Value,
    path: &FieldPath,
    check: impl Fn(&str) -> Result<(), NameError>,
    fix: &str,
    diagnostics: &mut Collector,
) -> Option<String> {
    let Value::String(text) = value else {
        let fix = match value {
            Value::Number(_) | Value::Bool(_) => format!("put it in quotes: \"{value}\""),
            _ => fix.to_owned(),
        };
        let problem = format!("must be a string, not {}", type_name(value));
        diagnostics.error(path, problem, fix);
        return None;
    };
    let checked = check(text);
    check_string(text, path, checked, fix, diagnostics);
    checked.is_ok().then(|| text.clone())
}

/// Adds an error if the check of a string failed. An empty string is not quoted.
pub(super) fn check_string(
    text: &str,
    path: &FieldPath,
    checked: Result<(), NameError>,
    fix: &str,
    diagnostics: &mut Collector,
) {
    match checked {
        Ok(()) => {}
        Err(NameError::Empty) => diagnostics.error(path, NameError::Empty.to_string(), fix),
        Err(error) => diagnostics.error(path, format!("{text:?} {error}"), fix),
    }
}

/// The fields of a typed value that are set.
pub(super) fn fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

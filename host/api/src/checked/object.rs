//! Reads JSON that may have one of several shapes, with a rejection for each wrong part.
//!
//! The API server cannot check inside these nodes, so every type, unknown key and bound is checked
//! here. A reader goes on after a problem: the caller sees `None` and the diagnostics hold the reason.

use serde_json::{Map, Value};

use crate::diagnostic::{Collector, choices};
use crate::field_path::FieldPath;
use crate::structure::found;

/// A JSON object whose keys are all known.
pub(super) struct Object<'a> {
    pub(super) path: FieldPath,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// Refuses every key that is not in `known`.
    pub(super) fn open(
        map: &'a Map<String, Value>,
        path: FieldPath,
        known: &[&str],
        diagnostics: &mut Collector,
    ) -> Self {
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            diagnostics.error(
                &path.field(key),
                "there is no such field",
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

    /// A text that passes `check`, which says what is wrong with it.
    pub(super) fn text(
        &self,
        key: &str,
        check: impl Fn(&str) -> Option<&'static str>,
        fix: &str,
        diagnostics: &mut Collector,
    ) -> Option<String> {
        text(self.value(key)?, &self.field(key), check, fix, diagnostics)
    }

    /// Like [`Self::text`], and refused when absent.
    pub(super) fn required_text(
        &self,
        key: &str,
        check: impl Fn(&str) -> Option<&'static str>,
        fix: &str,
        diagnostics: &mut Collector,
    ) -> Option<String> {
        if self.value(key).is_none() {
            diagnostics.error(&self.field(key), "is missing", fix);
        }
        self.text(key, check, fix, diagnostics)
    }

    /// A whole number of at least one and at most `most`.
    pub(super) fn count(&self, key: &str, most: u64, diagnostics: &mut Collector) -> Option<u64> {
        let value = self.value(key)?;
        let number = value.as_u64().filter(|number| (1..=most).contains(number));
        if number.is_none() {
            diagnostics.error(
                &self.field(key),
                format!("{value} is no number from 1 to {most}"),
                format!("use a whole number from 1 to {most}"),
            );
        }
        number
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str, diagnostics: &mut Collector) -> Option<bool> {
        let value = self.value(key)?;
        if !value.is_boolean() {
            let problem = format!("must be true or false, not {}", found(value));
            diagnostics.error(
                &self.field(key),
                problem,
                "write true or false, without quotes",
            );
        }
        value.as_bool()
    }

    /// A free object; empty when absent.
    pub(super) fn free(&self, key: &str, diagnostics: &mut Collector) -> Map<String, Value> {
        match self.value(key) {
            None => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(other) => {
                let problem = format!("must be an object, not {}", found(other));
                diagnostics.error(
                    &self.field(key),
                    problem,
                    "write name: value pairs below it",
                );
                Map::new()
            }
        }
    }
}

/// A text that passes `check`.
pub(super) fn text(
    value: &Value,
    path: &FieldPath,
    check: impl Fn(&str) -> Option<&'static str>,
    fix: &str,
    diagnostics: &mut Collector,
) -> Option<String> {
    let Value::String(text) = value else {
        let fix = match value {
            Value::Number(_) | Value::Bool(_) => format!("put it in quotes: \"{value}\""),
            _ => fix.to_owned(),
        };
        diagnostics.error(path, format!("must be a text, not {}", found(value)), fix);
        return None;
    };
    match check(text) {
        None => Some(text.clone()),
        Some("is empty") => {
            diagnostics.error(path, "is empty", fix);
            None
        }
        Some(problem) => {
            diagnostics.error(path, format!("{text:?} {problem}"), fix);
            None
        }
    }
}

/// Checks a text that was already typed, with the same words.
pub(super) fn typed_text(
    text: &str,
    path: &FieldPath,
    problem: Option<&str>,
    fix: &str,
    diagnostics: &mut Collector,
) {
    match problem {
        None => {}
        Some("is empty") => diagnostics.error(path, "is empty", fix),
        Some(problem) => diagnostics.error(path, format!("{text:?} {problem}"), fix),
    }
}

/// Any text that is not empty and has at most 512 characters.
pub(super) fn short(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("is empty")
    } else if text.chars().count() > 512 {
        Some("is longer than 512 characters")
    } else {
        None
    }
}

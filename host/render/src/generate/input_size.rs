//! Limits what plugins are given, before the first one is called.
//!
//! A plugin that runs out of fuel or memory has failed, and its author cannot tell whether the input was too
//! large. So the author of the input is told first, with the field and the limit.

use llsd_api::{Diagnostic, FieldPath};
use serde_json::Value;

use super::{GenerateError, Inputs};
use crate::limits::{BASE_BYTES, BASE_VALUES, SETTINGS_BYTES};

/// Checks the base configuration and the settings of every provider.
pub(super) fn check(inputs: &Inputs<'_>) -> Result<(), GenerateError> {
    let mut problems = Vec::new();
    let base = Size::of(inputs.base);
    if base.values > BASE_VALUES || base.bytes > BASE_BYTES {
        problems.push(Diagnostic::error(
            FieldPath::base_config(),
            format!(
                "has {} values and {} bytes, more than the limit of {BASE_VALUES} values or {BASE_BYTES} bytes",
                base.values, base.bytes
            ),
            "remove the providers and resources that the server does not need",
        ));
    }
    for provider in &inputs.checked.providers {
        let bytes: usize = provider
            .settings
            .iter()
            .map(|(key, value)| key.len() + Size::of(value).bytes)
            .sum();
        if bytes > SETTINGS_BYTES {
            problems.push(Diagnostic::error(
                provider.path.field("settings"),
                format!("has {bytes} bytes, more than the limit of {SETTINGS_BYTES}"),
                "put long values into the base configuration, or into a file of the image",
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(GenerateError::Rejected {
            schema: None,
            diagnostics: problems,
        })
    }
}

/// The size of a value: values with those inside it, and approximate bytes as JSON.
#[derive(Clone, Copy)]
struct Size {
    values: usize,
    bytes: usize,
}

/// Bytes of punctuation, and of a value that is not a string.
const SCALAR_BYTES: usize = 8;

impl Size {
    fn of(value: &Value) -> Self {
        let own = Self {
            values: 1,
            bytes: SCALAR_BYTES,
        };
        match value {
            Value::String(text) => Self {
                bytes: own.bytes + text.len(),
                ..own
            },
            Value::Array(items) => items.iter().fold(own, |all, item| all + Self::of(item)),
            Value::Object(entries) => entries.iter().fold(own, |all, (key, value)| {
                let mut all = all + Self::of(value);
                all.bytes += key.len();
                all
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => own,
        }
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            bytes: self.bytes + other.bytes,
        }
    }
}

//! Limits what plugins are given, before the first one is called.
//!
//! A plugin that runs out of fuel or memory has failed, and its author cannot tell whether the input was too
//! large. So the author of the input is told first, with the field and the limit.

use llsd_api::{Diagnostic, FieldPath};
use serde_json::Value;

use super::{GenerateError, Inputs};
use crate::limits::{BASE_BYTES, BASE_VALUES, PATCH_BYTES, PROVIDERS, SETTINGS_BYTES};

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
    let (in_base, in_spec) = (
        providers(inputs.base.get("providers")),
        inputs.checked.providers.len(),
    );
    if in_base + in_spec > PROVIDERS {
        problems.push(Diagnostic::error(
            FieldPath::spec().field("providers"),
            format!(
                "the resource has {in_spec} providers and the base configuration {in_base}, together more than the limit of {PROVIDERS}"
            ),
            "remove the providers that the server does not need",
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
    let patch: usize = inputs
        .checked
        .config_patch
        .iter()
        .map(|(key, value)| key.len() + Size::of(value).bytes)
        .sum();
    if patch > PATCH_BYTES {
        problems.push(Diagnostic::error(
            FieldPath::spec().field("configPatch"),
            format!("has {patch} bytes, more than the limit of {PATCH_BYTES}"),
            "put long values into the base configuration",
        ));
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

/// The number of providers in the section `providers` of a configuration, which lists them by API in all
/// dialects.
pub(super) fn providers(section: Option<&Value>) -> usize {
    let apis = section.and_then(Value::as_object);
    let lists = apis.into_iter().flat_map(|apis| apis.values());
    lists.filter_map(Value::as_array).map(Vec::len).sum()
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

//! The budgets of resources: what a tenant may store, and what the operator and the webhooks read.
//!
//! The API server accepts JSON of 1.5 MiB that is nested 10,000 levels deep, or that has 700,000 values of
//! two bytes each, which need a hundred times as much memory as values. [`JsonSize`] measures JSON without
//! parsing it. `docs/security.md` lists the budgets in one table with those of other crates.

use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::field_path::FieldPath;
use crate::unmanaged::Unmanaged;

/// Nesting below `spec`: twice as much as any resource has. Fields with a schema reach 12 levels.
pub const SPEC_DEPTH: usize = 32;

/// Values in `spec`. A resource with 256 providers of 20 settings each has a third of it.
pub const SPEC_VALUES: usize = 20_000;

/// Nesting of a whole object. Its managed fields repeat the names of all fields, with a few levels
/// around them. serde_json stops at 128.
pub const OBJECT_DEPTH: usize = 100;

/// Values in a whole object, with its managed fields and its status.
pub const OBJECT_VALUES: usize = 3 * SPEC_VALUES;

/// Length of each part of a message: enough for a list of all providers.
pub(crate) const MESSAGE_BYTES: usize = 4 << 10;

/// Depth of the field that a message names, below `spec`.
const NAMED_LEVELS: usize = 3;

/// Objects up to this size cannot have too many values, and are not measured.
const SMALL_BYTES: usize = 64 << 10;

/// Parses an object of the cluster without its managed fields, unless it is nested too deeply or has too many
/// values.
pub fn read_object(json: &str) -> Result<Value, Diagnostic> {
    let exceeded = || JsonSize::measure(json).exceeded_by_object();
    if json.len() > SMALL_BYTES
        && let Some(error) = exceeded()
    {
        return Err(error);
    }
    if let Ok(Unmanaged(object)) = serde_json::from_str(json) {
        return Ok(Value::Object(object));
    }
    serde_json::from_str(json).map_err(|error| {
        exceeded().unwrap_or_else(|| {
            let problem = format!("cannot be read: {error}");
            Diagnostic::error(FieldPath::root(), problem, "send valid JSON")
        })
    })
}

/// The size of a JSON text as values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Levels of lists and objects.
    pub depth: usize,
    /// Number of values, at most one too many for each empty list or object.
    pub values: usize,
}

impl JsonSize {
    /// Measures valid JSON in one pass, without recursion.
    pub fn measure(json: &str) -> Self {
        let (mut depth, mut size) = (
            0_usize,
            Self {
                depth: 0,
                values: 1,
            },
        );
        let mut bytes = json.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b'{' | b'[' => {
                    depth += 1;
                    size.depth = size.depth.max(depth);
                    size.values += 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => size.values += 1,
                _ => {}
            }
        }
        size
    }

    /// The limit of a whole object that it exceeds, as the author of the resource must see it.
    pub fn exceeded_by_object(self) -> Option<Diagnostic> {
        if self.depth > OBJECT_DEPTH {
            return Some(too_deep(FieldPath::spec()));
        }
        (self.values > OBJECT_VALUES).then(too_many_values)
    }
}

/// Skips to the end of a string that has begun.
fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

/// Checks the depth and the number of values of `spec`.
pub(crate) fn check_spec(spec: &Value) -> Option<Diagnostic> {
    let mut values = 0;
    match exceeding(spec, 1, &FieldPath::spec(), &mut values) {
        Err(Exceeded::Depth(field)) => Some(too_deep(field)),
        Err(Exceeded::Values) => Some(too_many_values()),
        Ok(()) => None,
    }
}

enum Exceeded {
    Depth(FieldPath),
    Values,
}

/// Stops at the first value that exceeds a limit, so its own recursion is limited.
fn exceeding(
    value: &Value,
    level: usize,
    field: &FieldPath,
    values: &mut usize,
) -> Result<(), Exceeded> {
    *values += 1;
    if *values > SPEC_VALUES {
        return Err(Exceeded::Values);
    }
    if !value.is_array() && !value.is_object() {
        return Ok(());
    }
    if level > SPEC_DEPTH {
        return Err(Exceeded::Depth(field.clone()));
    }
    let is_named = level <= NAMED_LEVELS;
    match value {
        Value::Array(items) => {
            for item in items {
                exceeding(item, level + 1, field, values)?;
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                if is_named && (value.is_array() || value.is_object()) {
                    exceeding(value, level + 1, &field.field(key), values)?;
                } else {
                    exceeding(value, level + 1, field, values)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The problem of a resource that is nested too deeply.
pub(crate) const TOO_DEEP: (&str, &str) = (
    "is nested deeper than 32 levels",
    "use fewer levels of lists and objects",
);

fn too_deep(field: FieldPath) -> Diagnostic {
    let (problem, fix) = TOO_DEEP;
    Diagnostic::error(field, problem, fix)
}

fn too_many_values() -> Diagnostic {
    Diagnostic::error(
        FieldPath::spec(),
        format!("has more than {SPEC_VALUES} values"),
        "use fewer or shorter lists and objects, or put them into the base configuration",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn json_is_measured_without_recursion() {
        for (json, depth, values) in [
            ("1", 0, 1),
            (r#""a,[{\"}\\""#, 0, 1),
            (r#"[1,[2],"\\",{"a":"]"}]"#, 2, 7),
        ] {
            assert_eq!(
                JsonSize::measure(json),
                JsonSize { depth, values },
                "{json}"
            );
        }
        assert_eq!(JsonSize::measure(&nested(100_000)).depth, 100_000);
    }

    #[test]
    fn a_spec_that_is_too_deep_is_refused_by_its_field() {
        let spec = |levels| {
            let settings: Value = serde_json::from_str(&nested(levels)).unwrap();
            json!({"providers": {"inference": {"provider": "vllm", "settings": settings}}})
        };
        assert_eq!(check_spec(&spec(SPEC_DEPTH - 3)), None);
        let refused = check_spec(&spec(SPEC_DEPTH - 2)).unwrap();
        assert_eq!(refused.field.as_str(), "spec.providers.inference.settings");
        assert!(refused.problem.contains(&SPEC_DEPTH.to_string()));
    }

    #[test]
    fn a_spec_with_too_many_values_is_refused() {
        let spec = |values| json!({"settings": vec![0; values]});
        assert_eq!(check_spec(&spec(SPEC_VALUES - 2)), None);
        let refused = check_spec(&spec(SPEC_VALUES - 1)).unwrap();
        assert_eq!(
            refused.to_string(),
            "spec: has more than 20000 values; use fewer or shorter lists and objects, or put them into the base configuration"
        );
    }
}

//! The constraints on a value that has the right type: enum, quantity, range, length, uniqueness.

use serde_json::Value;

use super::Validation;
use crate::diagnostic::choices;
use crate::field_path::FieldPath;
use crate::names;
use crate::schema::QUANTITY;

impl Validation<'_> {
    /// Returns false if the value is not in the enum: it cannot be deserialized.
    pub(super) fn check_enum(&mut self, value: &Value, schema: &Value, path: &FieldPath) -> bool {
        let Some(known) = schema["enum"].as_array() else {
            return true;
        };
        if known.contains(value) {
            return true;
        }
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let fix = choices(&text, known.iter().filter_map(Value::as_str));
        self.diagnostics
            .error(path, format!("{value} is not a valid value"), fix);
        false
    }

    /// The pattern of quantities is the only one in our schemas. The semantic checks cover all other
    /// string formats, with messages of their own.
    pub(super) fn check_quantity(&mut self, value: &Value, schema: &Value, path: &FieldPath) {
        let Some(text) = value.as_str().filter(|_| schema["pattern"] == QUANTITY) else {
            return;
        };
        if let Err(error) = names::quantity(text) {
            self.diagnostics.error(
                path,
                format!("{text:?} {error}"),
                "use a quantity such as 500m, 2 or 10Gi",
            );
            self.repaired.push(path.clone());
        }
    }

    pub(super) fn check_range(&mut self, number: f64, schema: &Value, path: &FieldPath) {
        let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            let fix = match (min, max) {
                (Some(min), Some(max)) => format!("use a number from {min} to {max}"),
                (Some(min), None) => format!("use {min} or more"),
                (None, max) => format!("use {} or less", max.unwrap_or(number)),
            };
            self.diagnostics
                .error(path, format!("{number} is out of range"), fix);
            self.repaired.push(path.clone());
        }
    }

    /// Checks a number of characters or items. `bounds` names the schema's keywords.
    pub(super) fn check_length(
        &mut self,
        count: usize,
        schema: &Value,
        path: &FieldPath,
        bounds: (&str, &str),
        unit: &str,
    ) {
        let bound = |name: &str| {
            schema[name]
                .as_u64()
                .map(|bound| usize::try_from(bound).unwrap_or(usize::MAX))
        };
        let counted = |count: usize| match count {
            1 => format!("1 {unit}"),
            count => format!("{count} {unit}s"),
        };
        match (bound(bounds.0), bound(bounds.1)) {
            (Some(min), _) if count == 0 && min > 0 => {
                self.diagnostics
                    .error(path, "is empty", "set a value, or remove the field");
                self.repaired.push(path.clone());
            }
            (Some(min), _) if count < min => self.diagnostics.error(
                path,
                format!("has {}", counted(count)),
                format!("use at least {}", counted(min)),
            ),
            (_, Some(max)) if count > max => self.diagnostics.error(
                path,
                format!("has {}", counted(count)),
                format!("use at most {}", counted(max)),
            ),
            _ => {}
        }
    }

    /// Checks that the items of a set, or the keys of a list map, are unique.
    pub(super) fn check_duplicates(&mut self, items: &[Value], schema: &Value, path: &FieldPath) {
        let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Some(item.clone()),
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
                Some(
                    keys.iter()
                        .filter_map(Value::as_str)
                        .map(|key| item[key].clone())
                        .collect(),
                )
            }
            _ => None,
        };
        let identities: Vec<_> = items.iter().map(identity).collect();
        for (position, identity) in identities.iter().enumerate() {
            let Some(identity) = identity else { continue };
            if let Some(first) = identities[..position]
                .iter()
                .position(|earlier| earlier.as_ref() == Some(identity))
            {
                let problem = format!("duplicates {}", path.index(first));
                self.diagnostics
                    .error(&path.index(position), problem, "remove one of the two");
                self.repaired.push(path.index(position));
            }
        }
    }
}

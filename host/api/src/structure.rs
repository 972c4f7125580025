//! Compares a resource with the schema of its CustomResourceDefinition, as the API server would.
//!
//! In: JSON from a file and a structural schema. Out: one rejection per unknown field, wrong type,
//! missing field and broken bound, and the JSON without the parts that no type could hold, so that
//! the checks of meaning can still run over the rest. The schema is the only source: what the
//! cluster refuses, a laptop refuses too, in better words.

use serde_json::{Map, Value};

use crate::checked::names;
use crate::diagnostic::{Collector, choices};
use crate::field_path::FieldPath;
use crate::schema::QUANTITY;

/// Compares `value` with `schema`, repairs what would not parse, and returns the places repaired.
pub(crate) fn compare(
    value: &mut Value,
    schema: &Value,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Vec<FieldPath> {
    let mut walk = Walk {
        diagnostics,
        repaired: Vec::new(),
    };
    if !walk.node(value, schema, path) {
        *value = placeholder(schema);
        walk.repaired.push(path.clone());
    }
    walk.repaired
}

struct Walk<'a> {
    diagnostics: &'a mut Collector,
    repaired: Vec<FieldPath>,
}

impl Walk<'_> {
    /// False when the value is of the wrong type and must go.
    fn node(&mut self, value: &mut Value, schema: &Value, path: &FieldPath) -> bool {
        if value.is_null() && schema["nullable"] != true {
            self.diagnostics
                .error(path, "has no value", "give it one, or remove the field");
            return false;
        }
        let expected = Expected::of(schema);
        if expected == Expected::Anything {
            return true;
        }
        if !expected.matches(value) {
            let fix = match (expected, &*value) {
                (Expected::Text, Value::Number(_) | Value::Bool(_)) => {
                    format!("put it in quotes: \"{value}\"")
                }
                _ => format!("write {}", expected.words()),
            };
            self.diagnostics.error(
                path,
                format!("must be {}, not {}", expected.words(), found(value)),
                fix,
            );
            return false;
        }
        if !self.choice(value, schema, path) {
            return false;
        }
        self.amount(value, schema, path);
        match value {
            Value::Object(map) => self.object(map, schema, path),
            Value::Array(items) => return self.list(items, schema, path),
            Value::String(text) => self.length(
                text.chars().count(),
                schema,
                path,
                ("minLength", "maxLength"),
                "character",
            ),
            Value::Number(number) => self.range(number.as_f64().unwrap_or(f64::NAN), schema, path),
            Value::Bool(_) | Value::Null => {}
        }
        true
    }

    fn object(&mut self, map: &mut Map<String, Value>, schema: &Value, path: &FieldPath) {
        self.length(
            map.len(),
            schema,
            path,
            ("minProperties", "maxProperties"),
            "entry",
        );
        let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let properties = schema["properties"].as_object();
        let mut spoiled = Vec::new();
        for (key, value) in map.iter_mut() {
            let below = path.field(key);
            let known = properties.and_then(|known| known.get(key));
            let fits = match known.or_else(|| {
                schema
                    .get("additionalProperties")
                    .filter(|more| more.is_object())
            }) {
                Some(schema) => self.node(value, schema, &below),
                None if keeps_unknown => true,
                None => {
                    let names = properties
                        .into_iter()
                        .flatten()
                        .map(|(name, _)| name.as_str());
                    self.diagnostics
                        .error(&below, "there is no such field", choices(key, names));
                    false
                }
            };
            if !fits {
                spoiled.push((key.clone(), below));
            }
        }
        for (key, below) in spoiled {
            map.remove(&key);
            self.repaired.push(below);
        }
        self.required(map, schema, path);
    }

    fn required(&mut self, map: &mut Map<String, Value>, schema: &Value, path: &FieldPath) {
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if map.contains_key(name) {
                continue;
            }
            let below = path.field(name);
            let schema = &schema["properties"][name];
            if !self.repaired.contains(&below) {
                self.diagnostics.error(
                    &below,
                    "is missing",
                    format!("add it: {}", Expected::of(schema).words()),
                );
                self.repaired.push(below);
            }
            map.insert(name.to_owned(), placeholder(schema));
        }
    }

    fn list(&mut self, items: &mut [Value], schema: &Value, path: &FieldPath) -> bool {
        self.length(items.len(), schema, path, ("minItems", "maxItems"), "entry");
        let mut fits = true;
        for (position, item) in items.iter_mut().enumerate() {
            fits &= self.node(item, &schema["items"], &path.index(position));
        }
        self.repetitions(items, schema, path);
        // A list that lost an entry would give all later entries wrong places: it goes whole.
        fits
    }

    fn repetitions(&mut self, items: &[Value], schema: &Value, path: &FieldPath) {
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
                let problem = format!("repeats {}", path.index(first));
                self.diagnostics
                    .error(&path.index(position), problem, "remove one of the two");
                self.repaired.push(path.index(position));
            }
        }
    }

    /// False when the value is none of the choices; no type could hold it.
    fn choice(&mut self, value: &Value, schema: &Value, path: &FieldPath) -> bool {
        let Some(known) = schema["enum"].as_array() else {
            return true;
        };
        if known.contains(value) {
            return true;
        }
        let wrong = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let fix = choices(&wrong, known.iter().filter_map(Value::as_str));
        self.diagnostics
            .error(path, format!("{value} is not one of the choices"), fix);
        false
    }

    /// The one pattern of our schemas. Everything else that is a matter of letters has better words
    /// in the checks of meaning.
    fn amount(&mut self, value: &Value, schema: &Value, path: &FieldPath) {
        let Some(text) = value.as_str().filter(|_| schema["pattern"] == QUANTITY) else {
            return;
        };
        if let Some(problem) = names::quantity(text) {
            self.diagnostics.error(
                path,
                format!("{text:?} {problem}"),
                "give an amount such as 500m, 2 or 10Gi",
            );
            self.repaired.push(path.clone());
        }
    }

    fn range(&mut self, number: f64, schema: &Value, path: &FieldPath) {
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let fix = match (least, most) {
                (Some(least), Some(most)) => format!("use a number from {least} to {most}"),
                (Some(least), None) => format!("use {least} or more"),
                (None, most) => format!("use {} or less", most.unwrap_or(number)),
            };
            self.diagnostics
                .error(path, format!("{number} is out of range"), fix);
            self.repaired.push(path.clone());
        }
    }

    fn length(
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
        let plural = |count: usize| match (count, unit) {
            (1, unit) => format!("1 {unit}"),
            (count, "entry") => format!("{count} entries"),
            (count, unit) => format!("{count} {unit}s"),
        };
        match (bound(bounds.0), bound(bounds.1)) {
            (Some(least), _) if count == 0 && least > 0 => {
                self.diagnostics
                    .error(path, "is empty", "give it a value, or remove the field");
                self.repaired.push(path.clone());
            }
            (Some(least), _) if count < least => {
                self.diagnostics.error(
                    path,
                    format!("has {}", plural(count)),
                    format!("use at least {}", plural(least)),
                );
            }
            (_, Some(most)) if count > most => {
                self.diagnostics.error(
                    path,
                    format!("has {}", plural(count)),
                    format!("use at most {}", plural(most)),
                );
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Anything,
    Object,
    List,
    Text,
    Integer,
    Number,
    Bool,
    IntegerOrText,
}

impl Expected {
    fn of(schema: &Value) -> Self {
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::IntegerOrText;
        }
        match schema["type"].as_str() {
            Some("object") => Self::Object,
            Some("array") => Self::List,
            Some("string") => Self::Text,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Bool,
            _ => Self::Anything,
        }
    }

    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Anything => true,
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Bool => value.is_boolean(),
            // Users write `cpu: 0.5`; Kubernetes takes it for a quantity.
            Self::IntegerOrText => value.is_number() || value.is_string(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Anything => "a value",
            Self::Object => "an object",
            Self::List => "a list",
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Bool => "true or false",
            Self::IntegerOrText => "a number or a text",
        }
    }
}

/// The kind of a value, in the words of the messages.
pub(crate) fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The least value of a type, so that the rest of a resource can still be read.
fn placeholder(schema: &Value) -> Value {
    match Expected::of(schema) {
        Expected::Object => {
            let required = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            required
                .map(|name| (name.to_owned(), placeholder(&schema["properties"][name])))
                .collect()
        }
        Expected::List => Value::Array(Vec::new()),
        Expected::Integer | Expected::Number => Value::from(0),
        Expected::Bool => Value::Bool(false),
        Expected::Text | Expected::IntegerOrText => Value::String(String::new()),
        Expected::Anything => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said about a value, and what is left of it.
    fn compared(schema: Value, mut value: Value) -> (Vec<String>, Value) {
        let mut diagnostics = Collector::default();
        compare(
            &mut value,
            &schema,
            &FieldPath::root().field("x"),
            &mut diagnostics,
        );
        (
            diagnostics.errors.iter().map(ToString::to_string).collect(),
            value,
        )
    }

    #[test]
    fn bounds_are_named_as_far_as_they_go() {
        let said = |schema: Value, value: Value| compared(schema, value).0.join("\n");
        assert_eq!(
            said(json!({ "type": "integer", "minimum": 1 }), json!(0)),
            "x: 0 is out of range; use 1 or more"
        );
        assert_eq!(
            said(json!({ "type": "number", "maximum": 1 }), json!(1.5)),
            "x: 1.5 is out of range; use 1 or less"
        );
        assert_eq!(
            said(json!({ "type": "string", "minLength": 2 }), json!("a")),
            "x: has 1 character; use at least 2 characters"
        );
        assert_eq!(
            said(json!({ "type": "string", "maxLength": 2 }), json!("äöü")),
            "x: has 3 characters; use at most 2 characters"
        );
        let list = json!({ "type": "array", "maxItems": 1, "items": { "type": "boolean" } });
        assert_eq!(
            said(list, json!([true, false])),
            "x: has 2 entries; use at most 1 entry"
        );
        let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        assert_eq!(said(free, json!({ "a": null })), "");
    }

    #[test]
    fn what_no_type_can_hold_gives_way_to_the_least_that_one_can() {
        let schema = json!({
            "type": "object",
            "required": ["list", "number", "flag", "amount", "any", "inner"],
            "properties": {
                "list": { "type": "array", "items": { "type": "string" } },
                "number": { "type": "number" },
                "flag": { "type": "boolean" },
                "amount": { "x-kubernetes-int-or-string": true },
                "any": { "x-kubernetes-preserve-unknown-fields": true },
                "inner": { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } },
            },
        });
        let (said, left) = compared(
            schema.clone(),
            json!({ "list": [1], "number": {}, "flag": [], "amount": true, "any": 1 }),
        );
        assert_eq!(
            said,
            [
                "x.list[0]: must be a text, not a number; put it in quotes: \"1\"",
                "x.number: must be a number, not an object; write a number",
                "x.flag: must be true or false, not a list; write true or false",
                "x.amount: must be a number or a text, not true or false; write a number or a text",
                "x.inner: is missing; add it: an object",
            ]
        );
        let least = json!({ "list": [], "number": 0, "flag": false, "amount": "", "any": 1, "inner": { "text": "" } });
        assert_eq!(left, least);
        assert_eq!(compared(schema, json!(null)).1["any"], json!(null));
    }

    #[test]
    fn an_empty_value_is_asked_for() {
        let (said, _) = compared(
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "x-kubernetes-preserve-unknown-fields": true } } }),
            json!({}),
        );
        assert_eq!(said, ["x.a: is missing; add it: a value"]);
        assert_eq!(found(&Value::Null), "empty");
    }
}

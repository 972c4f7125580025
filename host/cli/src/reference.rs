//! Generates `docs/reference.md`, the reference of every field.
//!
//! In: the schemas of the custom resource definitions. Out: Markdown; equal input gives equal bytes.
//! Fields inside Kubernetes types (such as volumes) are left out, because Kubernetes documents them.

use std::collections::BTreeMap;
use std::fmt::Write;

use llsd_api::{distribution_crd, schema_plugin_crd};
use serde_json::{Map, Value};

const INTRODUCTION: &str = "\
# Reference

Every field of the resources in the API group `llamastack.io`. `cargo xtask generate` writes this
page from the custom resource definitions; `kubectl explain` shows the same descriptions.

In a path, `[]` stands for the items of a list and `*` for any key of a map. Fields are optional
unless marked as required. A secret reference is `{name, key}` or
`{secretKeyRef: {name, key}}`.
";

/// The page as Markdown.
pub(crate) fn page() -> anyhow::Result<String> {
    let mut page = INTRODUCTION.to_owned();
    for (definition, version, about) in [
        (
            serde_json::to_value(distribution_crd(None))?,
            "v1alpha2",
            "One server in one namespace. v1alpha1 is served too: see [how its fields are converted](migration-v1alpha1-to-v1alpha2.md).",
        ),
        (
            serde_json::to_value(schema_plugin_crd())?,
            "v1alpha1",
            "A plugin that the operator may load; see [plugins](plugins.md).",
        ),
    ] {
        let kind = definition["spec"]["names"]["kind"]
            .as_str()
            .unwrap_or_default();
        let _ = write!(page, "\n## {kind} {version}\n\n{about}\n");
        let versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        let schema = versions.into_iter().find(|one| one["name"] == version);
        let schema = schema.map_or(&Value::Null, |one| &one["schema"]["openAPIV3Schema"]);
        for part in ["spec", "status"] {
            let mut table = Table::default();
            table.add_fields(part, &schema["properties"][part]);
            let _ = write!(page, "\n### {kind} {part}\n\n{}", table.markdown());
        }
    }
    Ok(page)
}

#[derive(Default)]
struct Table {
    rows: Vec<[String; 3]>,
    /// For each schema, the path where its fields are listed.
    listed: BTreeMap<String, String>,
}

impl Table {
    /// Adds a row for each field below `path`, recursively. The fields of a schema are listed once; later
    /// rows point there.
    fn add_fields(&mut self, path: &str, schema: &Value) {
        let Some(fields) = schema["properties"].as_object() else {
            return;
        };
        let required = |name: &str| {
            let names = schema["required"].as_array().into_iter().flatten();
            names.into_iter().any(|one| one == name)
        };
        for (name, field) in fields {
            let path = format!("{path}.{name}");
            let mut about = description(field);
            if required(name) {
                about = format!("**Required.** {about}");
            }
            let (below, inner) = inside(&path, field);
            let is_described = is_described(inner);
            if is_described {
                let first = self
                    .listed
                    .entry(inner.to_string())
                    .or_insert_with(|| below.clone());
                if *first != below {
                    let _ = write!(about, " Same fields as `{first}`.");
                    self.rows.push([path, kind(field), about]);
                    continue;
                }
            }
            self.rows.push([path, kind(field), about]);
            if is_described {
                self.add_fields(&below, inner);
            }
        }
    }

    fn markdown(&self) -> String {
        let mut text = "| field | type | |\n|---|---|---|\n".to_owned();
        for [path, kind, about] in &self.rows {
            let _ = writeln!(text, "| `{path}` | {kind} | {about} |");
        }
        text
    }
}

/// The schema with the fields below a field, and its path.
fn inside<'a>(path: &str, field: &'a Value) -> (String, &'a Value) {
    if field["items"]["properties"].is_object() {
        return (format!("{path}[]"), &field["items"]);
    }
    if field["additionalProperties"]["properties"].is_object() {
        return (format!("{path}.*"), &field["additionalProperties"]);
    }
    (path.to_owned(), field)
}

/// Whether a schema describes its fields. Those of Kubernetes types do not.
fn is_described(schema: &Value) -> bool {
    let fields = schema["properties"].as_object();
    fields.is_some_and(|fields| {
        fields
            .values()
            .any(|field| field.get("description").is_some())
    })
}

fn description(field: &Value) -> String {
    let text = field["description"].as_str().unwrap_or_default();
    let mut text = text.replace('\n', " ").replace('|', "\\|");
    let choices: Vec<String> = field["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str().map(|one| format!("`{one}`")))
        .collect();
    if !choices.is_empty() {
        let _ = write!(text, " One of {}.", choices.join(", "));
    }
    let bounds = |low: &str, high: &str| (number(field, low), number(field, high));
    match bounds("minimum", "maximum") {
        (Some(low), Some(high)) => {
            let _ = write!(text, " From {low} to {high}.");
        }
        (Some(low), None) => {
            let _ = write!(text, " At least {low}.");
        }
        (None, Some(high)) => {
            let _ = write!(text, " At most {high}.");
        }
        (None, None) => {}
    }
    text
}

/// A bound without the `.0` that integers have in a definition.
fn number(field: &Value, key: &str) -> Option<String> {
    field[key].as_f64().map(|number| number.to_string())
}

fn kind(field: &Value) -> String {
    let empty = Map::new();
    let field = field.as_object().unwrap_or(&empty);
    if field.contains_key("x-kubernetes-int-or-string") {
        return "integer or string".to_owned();
    }
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!(
            "list of {}",
            kind(field.get("items").unwrap_or(&Value::Null))
        ),
        Some("object") if field.contains_key("additionalProperties") => "map".to_owned(),
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_shows_type_description_bounds_and_whether_the_field_is_required() {
        let mut table = Table::default();
        table.add_fields(
            "spec",
            &json!({
                "required": ["port"],
                "properties": {
                    "port": { "type": "integer", "minimum": 1.0, "maximum": 65535.0, "description": "A port." },
                    "level": { "type": "string", "enum": ["a", "b"], "description": "How much." },
                },
            }),
        );
        assert_eq!(
            table.markdown(),
            "| field | type | |\n|---|---|---|\n\
             | `spec.port` | integer | **Required.** A port. From 1 to 65535. |\n\
             | `spec.level` | string | How much. One of `a`, `b`. |\n"
        );
    }

    #[test]
    fn repeated_fields_point_to_the_first_and_kubernetes_types_are_left_out() {
        let mut table = Table::default();
        let ours = json!({ "type": "object", "description": "One.", "properties": { "id": { "type": "string", "description": "Its id." } } });
        let theirs = json!({ "type": "array", "description": "Volumes.", "items": { "type": "object", "properties": { "name": { "type": "string" } } } });
        table.add_fields(
            "spec",
            &json!({ "properties": { "a": ours, "b": ours, "volumes": theirs } }),
        );
        let paths: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(paths, ["spec.a", "spec.a.id", "spec.b", "spec.volumes"]);
        assert_eq!(table.rows[2][2], "One. Same fields as `spec.a`.");
    }
}

//! Reads a resource from a file: `apiVersion` and `kind`, metadata, then spec and status by schema.
//!
//! In: any JSON. Out: a [`Distribution`], with an error for each violation of the schema. Values that
//! cannot be deserialized are removed, and their field paths returned, so that the semantic checks can
//! run on the rest.

use serde_json::{Map, Value};

use crate::crd;
use crate::diagnostic::{Collector, Diagnostic, Diagnostics, choices};
use crate::field_path::FieldPath;
use crate::gvk::{API_VERSION_V1ALPHA1, API_VERSION_V1ALPHA2, GROUP, KIND};
use crate::json_type::type_name;
use crate::schema_validation;
use crate::v1alpha2::Distribution;

impl Distribution {
    /// Reads a document and checks it against the schema. [`crate::check_document`] also runs the
    /// semantic checks.
    pub fn from_value(document: Value) -> Result<Self, Diagnostics> {
        let mut diagnostics = Collector::default();
        let read = read(document, &mut diagnostics);
        match (Diagnostics::new(diagnostics.errors), read) {
            (None, Some((distribution, _))) => Ok(distribution),
            (Some(errors), _) => Err(errors),
            (None, None) => Err(unreadable("the reason is unknown")),
        }
    }
}

/// The resource and the repaired fields. `None` if the document is not a `LlamaStackDistribution`.
pub(crate) fn read(
    document: Value,
    diagnostics: &mut Collector,
) -> Option<(Distribution, Vec<FieldPath>)> {
    let Value::Object(mut document) = document else {
        let problem = format!("must be an object, not {}", type_name(&document));
        diagnostics.error(
            &FieldPath::root(),
            problem,
            format!("start with apiVersion: {API_VERSION_V1ALPHA2} and kind: {KIND}"),
        );
        return None;
    };
    if !check_type_meta(&document, diagnostics) {
        return None;
    }
    let root = FieldPath::root();
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let unknown: Vec<String> = document
        .keys()
        .filter(|key| !known.contains(&key.as_str()))
        .cloned()
        .collect();
    for key in unknown {
        diagnostics.error(&root.field(&key), "unknown field", choices(&key, known));
        document.remove(&key);
    }
    check_metadata(&mut document, diagnostics);
    let mut repaired = Vec::new();
    for part in ["spec", "status"] {
        let schema = &crd::V1ALPHA2_SCHEMA["properties"][part];
        match document.get_mut(part) {
            Some(value) => repaired.extend(schema_validation::validate(
                value,
                schema,
                &root.field(part),
                diagnostics,
            )),
            None if part == "spec" => {
                let fix = "add spec: {distribution: {name: starter}}";
                diagnostics.error(&root.field(part), "is missing", fix);
                return None;
            }
            None => {}
        }
    }
    match serde_json::from_value(Value::Object(document)) {
        Ok(distribution) => Some((distribution, repaired)),
        Err(error) => {
            diagnostics.errors.extend(unreadable(&error.to_string()));
            None
        }
    }
}

fn unreadable(reason: &str) -> Diagnostics {
    Diagnostics::from(Diagnostic::error(
        FieldPath::root(),
        format!("cannot be read: {reason}"),
        "correct the field that the error names",
    ))
}

/// Whether `apiVersion` and `kind` are supported.
fn check_type_meta(document: &Map<String, Value>, diagnostics: &mut Collector) -> bool {
    let before = diagnostics.errors.len();
    let root = FieldPath::root();
    let string = |field: &str| {
        document
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = root.field("apiVersion");
    match string("apiVersion") {
        "" => diagnostics.error(
            &version,
            "is missing",
            format!("add apiVersion: {API_VERSION_V1ALPHA2}"),
        ),
        other if is_other_kind(other, string("kind")) => {
            // The spec differs as well: another apiVersion alone does not make it a valid resource.
            let problem = format!("{other:?} {:?} is a different resource", string("kind"));
            let fix = format!(
                "write a {KIND} of {API_VERSION_V1ALPHA2}; its spec has other fields, so changing apiVersion and kind is not enough"
            );
            diagnostics.error(&version, problem, fix);
            return false;
        }
        API_VERSION_V1ALPHA2 => {}
        API_VERSION_V1ALPHA1 => diagnostics.error(
            &version,
            format!("{API_VERSION_V1ALPHA1:?} is an older version"),
            "convert the file with llsd convert -f FILE --to v1alpha2",
        ),
        other => diagnostics.error(
            &version,
            format!("{other:?} is not a version of this resource"),
            format!("use {API_VERSION_V1ALPHA2} or {API_VERSION_V1ALPHA1}"),
        ),
    }
    match string("kind") {
        KIND => {}
        "" => diagnostics.error(
            &root.field("kind"),
            "is missing",
            format!("add kind: {KIND}"),
        ),
        other => diagnostics.error(
            &root.field("kind"),
            format!("{other:?} is not supported"),
            format!("use {KIND}"),
        ),
    }
    diagnostics.errors.len() == before
}

/// Whether a document belongs to another API group, or is an `OGXServer`.
fn is_other_kind(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group != GROUP || kind == "OGXServer"
}

/// Checks the types of the metadata that users write. The API server checks the rest.
fn check_metadata(document: &mut Map<String, Value>, diagnostics: &mut Collector) {
    let path = FieldPath::root().field("metadata");
    let metadata = document
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(map) = metadata else {
        diagnostics.error(
            &path,
            format!("must be an object, not {}", type_name(metadata)),
            "write metadata: {name: my-stack}",
        );
        *metadata = Value::Object(Map::new());
        return;
    };
    for field in ["name", "namespace", "generateName"] {
        if let Some(value) = map.get(field).filter(|value| !value.is_string()) {
            diagnostics.error(
                &path.field(field),
                format!("must be a string, not {}", type_name(value)),
                format!("put it in quotes: \"{value}\""),
            );
            map.remove(field);
        }
    }
    for field in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = map.get_mut(field) else {
            continue;
        };
        let wrong: Vec<String> = entries
            .iter()
            .filter(|(_, value)| !value.is_string())
            .map(|(key, _)| key.clone())
            .collect();
        for key in wrong {
            let value = entries.remove(&key).unwrap_or_default();
            let problem = format!("must be a string, not {}", type_name(&value));
            diagnostics.error(
                &path.field(field).field(&key),
                problem,
                format!("put it in quotes: \"{value}\""),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(document: Value) -> Vec<String> {
        Distribution::from_value(document)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_unsupported_document_is_rejected_with_a_fix() {
        assert_eq!(
            errors(json!("text")),
            [
                "resource: must be an object, not a string; start with apiVersion: llamastack.io/v1alpha2 and kind: LlamaStackDistribution"
            ]
        );
        assert_eq!(
            errors(json!({})),
            [
                "apiVersion: is missing; add apiVersion: llamastack.io/v1alpha2",
                "kind: is missing; add kind: LlamaStackDistribution"
            ]
        );
        assert_eq!(
            errors(json!({ "apiVersion": "llamastack.io/v1", "kind": "Pod" })),
            [
                "apiVersion: \"llamastack.io/v1\" is not a version of this resource; use llamastack.io/v1alpha2 or llamastack.io/v1alpha1",
                "kind: \"Pod\" is not supported; use LlamaStackDistribution",
            ]
        );
        assert_eq!(
            errors(json!({ "apiVersion": API_VERSION_V1ALPHA1, "kind": KIND })),
            [
                "apiVersion: \"llamastack.io/v1alpha1\" is an older version; convert the file with llsd convert -f FILE --to v1alpha2"
            ]
        );
        assert_eq!(
            errors(json!({ "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND })),
            ["spec: is missing; add spec: {distribution: {name: starter}}"]
        );
    }

    /// D10: the hint was to change the version, although the spec differs.
    #[test]
    fn a_resource_of_another_group_or_an_ogx_server_is_named_as_a_different_resource() {
        for (version, kind) in [
            ("ogx.io/v1beta1", "OGXServer"),
            ("llamastack.io/v1alpha1", "OGXServer"),
            ("example.com/v1", KIND),
            ("apps/v1", "Deployment"),
            ("v1", "ConfigMap"),
        ] {
            let found = errors(json!({ "apiVersion": version, "kind": kind, "spec": {} }));
            let expected = format!(
                "apiVersion: {version:?} {kind:?} is a different resource; write a LlamaStackDistribution of llamastack.io/v1alpha2; its spec has other fields, so changing apiVersion and kind is not enough"
            );
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn invalid_metadata_and_unknown_fields_are_reported() {
        let document = json!({
            "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND, "specs": {},
            "metadata": { "name": 5, "labels": { "a": true, "b": "c" } },
            "spec": { "distribution": { "name": "starter" }, "providrs": {} },
            "status": { "phase": "Odd", "availableReplicas": null },
        });
        assert_eq!(
            errors(document),
            [
                "metadata.labels.a: must be a string, not a boolean; put it in quotes: \"true\"",
                "metadata.name: must be a string, not a number; put it in quotes: \"5\"",
                "spec.providrs: unknown field; did you mean \"providers\"?",
                "specs: unknown field; did you mean \"spec\"?",
                "status.availableReplicas: is null; set a value, or remove the field",
                "status.phase: \"Odd\" is not a valid value; use one of: Failed, Initializing, Pending, Ready, Terminating",
            ]
        );
        let odd =
            json!({ "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND, "metadata": 1, "spec": 2 });
        assert_eq!(
            errors(odd),
            [
                "metadata: must be an object, not a number; write metadata: {name: my-stack}",
                "spec: must be an object, not a number; write an object",
            ]
        );
    }

    #[test]
    fn metadata_that_cannot_be_deserialized_is_rejected() {
        let document = json!({
            "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND, "metadata": { "labels": [] },
            "spec": { "distribution": { "name": "starter" } },
        });
        let errors = errors(document);
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].starts_with("resource: cannot be read: "),
            "{errors:?}"
        );
    }

    #[test]
    fn a_valid_document_is_read_with_its_status() {
        let document = json!({
            "apiVersion": API_VERSION_V1ALPHA2, "kind": KIND, "metadata": { "name": "a", "namespace": "b" },
            "spec": { "distribution": { "name": "starter" }, "workload": { "resources": { "limits": { "cpu": 2, "memory": "1Gi" } } } },
            "status": { "phase": "Ready" },
        });
        let distribution = Distribution::from_value(document).unwrap();
        assert_eq!(distribution.metadata.namespace.as_deref(), Some("b"));
        assert_eq!(
            distribution.status.unwrap().phase,
            Some(crate::v1alpha2::Phase::Ready)
        );
        let limits = distribution
            .spec
            .workload
            .unwrap()
            .resources
            .unwrap()
            .limits
            .unwrap();
        assert_eq!(limits["cpu"].0, "2");
    }
}

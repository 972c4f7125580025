//! Warns about SQLite beside several pods.
//!
//! A SQLite database is a file of one pod: others do not see what it stores, and a file on a shared
//! volume is damaged by several writers. The generated file decides where state is, so the check runs on it.

use llsd_api::checked::Checked;
use llsd_api::{Diagnostic, FieldPath};
use serde_json::{Map, Value};

/// The most databases that a message lists.
const MAX_LISTED: usize = 4;

/// The warning, if more than one pod may run and the configuration has SQLite databases.
pub(super) fn check(checked: &Checked, config: &Map<String, Value>) -> Option<Diagnostic> {
    let workload = FieldPath::spec().field("workload");
    let field = match &checked.workload.autoscaling {
        Some(autoscaling) if autoscaling.max_replicas > 1 => {
            workload.at(&["autoscaling", "maxReplicas"])
        }
        _ if checked.workload.replicas() > 1 => workload.field("replicas"),
        _ => return None,
    };
    let mut found = Vec::new();
    // Providers keep caches of their own; the state of the server is what clients see.
    for (key, value) in config.iter().filter(|(key, _)| *key != "providers") {
        collect(value, key, &mut found);
    }
    if found.is_empty() {
        return None;
    }
    found.sort();
    let others = found.len().saturating_sub(MAX_LISTED);
    found.truncate(MAX_LISTED);
    let mut listed = found.join(", ");
    if others > 0 {
        listed += &format!(" and {others} more");
    }
    let problem =
        format!("several pods do not share the state of the server, which is in SQLite ({listed})");
    let fix = "set spec.storage.kv and spec.storage.sql to a database server, or run one pod";
    Some(Diagnostic::warning(field, problem, fix).with_code("local-state"))
}

/// The paths of SQLite databases: objects with a type and a file.
fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        return;
    };
    let kind = object.get("type").and_then(Value::as_str);
    if object.contains_key("db_path") && kind.is_some_and(|kind| kind.ends_with("sqlite")) {
        found.push(path.to_owned());
    }
    for (key, value) in object {
        collect(value, &format!("{path}.{key}"), found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warned(workload: Value, config: &Value) -> Option<String> {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
            "spec": {"distribution": {"name": "starter"}, "workload": workload},
        });
        let checked = llsd_api::check_document(document).result.unwrap();
        check(&checked, config.as_object().unwrap()).map(|warning| warning.to_string())
    }

    #[test]
    fn sqlite_beside_several_pods_is_a_warning() {
        let local = json!({
            "storage": {"backends": {
                "kv_default": {"type": "kv_sqlite", "db_path": "/a/kv.db"},
                "sql_default": {"type": "sql_postgres", "host": "pg"},
            }},
            "providers": {"vector_io": [{"config": {"kvstore": {"type": "sqlite", "db_path": "/b"}}}]},
        });
        let expected = "spec.workload.replicas: several pods do not share the state of the server, which is in SQLite (storage.backends.kv_default); set spec.storage.kv and spec.storage.sql to a database server, or run one pod";
        assert_eq!(
            warned(json!({"replicas": 2}), &local).as_deref(),
            Some(expected)
        );
        let scaled = warned(
            json!({"autoscaling": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}),
            &local,
        );
        assert!(
            scaled.is_some_and(|text| text.starts_with("spec.workload.autoscaling.maxReplicas"))
        );
        let old = json!({"metadata_store": {"type": "sqlite", "db_path": "/a"}});
        assert!(warned(json!({"replicas": 2}), &old).is_some());
        // One pod, or a server for all state.
        assert_eq!(warned(json!({"replicas": 1}), &local), None);
        let shared = json!({"storage": {"backends": {"kv_default": {"type": "kv_postgres"}}}});
        assert_eq!(warned(json!({"replicas": 2}), &shared), None);
    }
}

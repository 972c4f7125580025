//! Adopts the managed fields of llama-stack-k8s-operator.
//!
//! llama-stack-k8s-operator owns every field twice, by its create request and by its applies. As long
//! as it owns a field, our apply cannot remove the field. So our entry replaces both of its entries.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::api::ObjectMeta;
use llsd_api::labels;
use serde_json::{Map, Value, json};

use crate::cache::is_written_by_upstream;

const APPLY: &str = "Apply";

/// The managed fields of an object with our entry instead of those of llama-stack-k8s-operator;
/// `None` if it has none. Its field manager for applies is the name of the resource.
pub(super) fn adopted_fields(
    metadata: &ObjectMeta,
    resource: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = metadata.managed_fields.as_deref()?;
    let is_upstream = |entry: &ManagedFieldsEntry| is_written_by_upstream(entry, Some(resource));
    let upstream = entries.iter().find(|entry| is_upstream(entry))?;
    let (merged, mut kept): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|entry| {
        // Field sets of different API versions cannot be merged.
        is_upstream(entry) || (is_ours(entry) && entry.api_version == upstream.api_version)
    });
    let mut fields = json!({});
    for entry in merged
        .iter()
        .filter(|one| one.api_version == upstream.api_version)
    {
        if let Some(FieldsV1(one)) = &entry.fields_v1 {
            merge(&mut fields, one);
        }
    }
    kept.push(ManagedFieldsEntry {
        manager: Some(labels::FIELD_MANAGER.to_owned()),
        operation: Some(APPLY.to_owned()),
        subresource: None,
        fields_v1: Some(FieldsV1(fields)),
        ..upstream.clone()
    });
    Some(kept)
}

/// Our managed fields without one field, so that an apply without the field does not remove it; `None`
/// if we do not manage it.
pub(super) fn released_field(
    metadata: &ObjectMeta,
    path: &[&str],
) -> Option<Vec<ManagedFieldsEntry>> {
    let mut entries = metadata.managed_fields.clone()?;
    let ours = entries.iter_mut().find(|entry| is_ours(entry))?;
    let FieldsV1(fields) = ours.fields_v1.as_mut()?;
    let (last, above) = path.split_last()?;
    let mut at = fields;
    for step in above {
        at = at.get_mut(format!("f:{step}"))?;
    }
    at.as_object_mut()?.remove(&format!("f:{last}"))?;
    Some(entries)
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(labels::FIELD_MANAGER)
        && entry.operation.as_deref() == Some(APPLY)
        && entry.subresource.is_none()
}

/// Merges two field sets, which are trees of objects.
fn merge(into: &mut Value, other: &Value) {
    let (Value::Object(into), Value::Object(other)) = (into, other) else {
        return;
    };
    for (key, value) in other {
        merge(
            into.entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new())),
            value,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn metadata(entries: Vec<Value>) -> ObjectMeta {
        serde_json::from_value(json!({"managedFields": entries})).expect("metadata")
    }

    fn names(entries: &[ManagedFieldsEntry]) -> Vec<String> {
        let name = |one: &ManagedFieldsEntry| {
            let [manager, subresource] = [&one.manager, &one.subresource];
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}/{}", text(manager), text(subresource))
        };
        entries.iter().map(name).collect()
    }

    #[test]
    fn both_entries_of_upstream_become_ours_and_those_of_the_cluster_stay() {
        let labels = json!({"f:labels": {"f:app.kubernetes.io/managed-by": {}}});
        let spec = |field: &str| json!({"f:metadata": labels, "f:spec": {field: {}}});
        let metadata = metadata(vec![
            entry("demo", "Apply", "", spec("f:a")),
            entry("manager", "Update", "", spec("f:b")),
            entry("kube-controller-manager", "Update", "status", json!({})),
            entry("kube-controller-manager", "Update", "scale", json!({})),
        ]);
        let adopted = adopted_fields(&metadata, "demo").expect("fields of upstream");
        assert_eq!(
            names(&adopted),
            [
                "kube-controller-manager/status",
                "kube-controller-manager/scale",
                "llsd/",
            ]
        );
        let FieldsV1(fields) = adopted[2].fields_v1.as_ref().expect("fields");
        let spec = json!({"f:a": {}, "f:b": {}});
        assert_eq!(*fields, json!({"f:metadata": labels, "f:spec": spec}));
    }

    #[test]
    fn the_fields_of_another_manager_are_not_adopted() {
        let metadata = metadata(vec![
            entry("argocd", "Apply", "", json!({})),
            // A controller of someone else, built with the same tools as upstream.
            entry("manager", "Update", "", json!({"f:spec": {"f:paused": {}}})),
            entry("llsd", "Apply", "", json!({})),
        ]);
        assert_eq!(adopted_fields(&metadata, "demo"), None);
    }

    #[test]
    fn a_released_field_leaves_the_others() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {}}});
        let metadata = metadata(vec![entry("llsd", "Apply", "", fields)]);
        let entries = released_field(&metadata, &["spec", "replicas"]).expect("a managed field");
        let FieldsV1(fields) = entries[0].fields_v1.as_ref().expect("fields");
        assert_eq!(*fields, json!({"f:spec": {"f:template": {}}}));
        assert_eq!(released_field(&metadata, &["spec", "paused"]), None);
    }
}

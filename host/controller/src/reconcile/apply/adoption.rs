//! Takes over what the first operator left: its fields, its Deployments and their pods.
//!
//! In: objects as they are and as they should be. Out: the managed fields with ours in the place of
//! the first operator's, and the object to apply so that no pod is replaced. The first operator owns
//! every field twice, once for its create and once for its applies; a field that it goes on owning
//! could never be removed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use llsd_api::labels;
use llsd_render::digest;
use llsd_render::objects::DESIRED_DIGEST;
use serde_json::{Map, Value, json};

use super::holds;

/// The first operator's program: manager of what it created.
const FIRST_OPERATOR: &str = "manager";
const APPLY: &str = "Apply";
const UPDATE: &str = "Update";
/// Label of a Deployment whose pods are still those of the first operator: a digest of the template
/// that we would have given them. While we would give the same one, theirs stays.
const KEPT_FOR: &str = "llamastack.io/template-kept-for";
/// The variable by which our own way of starting differs from the first operator's script.
const CONFIG_PATH_VARIABLE: &str = "RUN_CONFIG_PATH";

/// Whether the managed fields of an object may have to be moved, so that they are worth keeping.
pub(crate) fn may_concern(metadata: &ObjectMeta) -> bool {
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.any(|entry| is_created_by_first(entry) || is_apply_of_another(entry))
}

/// The managed fields of an object after its fields moved to us; nothing if there is none to move.
/// The first operator applied under the name of the resource.
pub(crate) fn moved(metadata: &ObjectMeta, resource: &str) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = metadata.managed_fields.as_deref()?;
    let is_theirs = |entry: &ManagedFieldsEntry| {
        is_created_by_first(entry)
            || (is_apply_of_another(entry) && entry.manager.as_deref() == Some(resource))
    };
    let theirs = entries.iter().find(|entry| is_theirs(entry))?;
    let (goes, mut stays): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|entry| {
        // Field sets of different versions of an API do not compare.
        is_theirs(entry) || (is_ours(entry) && entry.api_version == theirs.api_version)
    });
    let mut fields = json!({});
    for entry in goes
        .iter()
        .filter(|one| one.api_version == theirs.api_version)
    {
        if let Some(FieldsV1(one)) = &entry.fields_v1 {
            unite(&mut fields, one);
        }
    }
    stays.push(ManagedFieldsEntry {
        manager: Some(labels::FIELD_MANAGER.to_owned()),
        operation: Some(APPLY.to_owned()),
        subresource: None,
        fields_v1: Some(FieldsV1(fields)),
        ..theirs.clone()
    });
    Some(stays)
}

/// Our managed fields without one field, so that leaving it out of an apply does not remove it;
/// nothing if it is not ours.
pub(crate) fn released(metadata: &ObjectMeta, path: &[&str]) -> Option<Vec<ManagedFieldsEntry>> {
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

/// Whether nobody owns a Deployment that was made for this resource. The first operator forgot the
/// owner when it replaced a Deployment as a whole.
pub(crate) fn is_orphan(live: &DynamicObject, desired: &Value) -> bool {
    let managed_by = live.labels().get(labels::MANAGED_BY).map(String::as_str);
    live.owner_references().is_empty()
        && managed_by == Some(labels::MANAGER)
        && live.data["spec"]["selector"] == desired["spec"]["selector"]
}

/// Keeps the words by which an object names its owner: the first operator called it by another
/// version, and who changes them must be allowed to delete the object, where that is enforced.
pub(crate) fn keep_owner(live: &DynamicObject, desired: &mut Value, uid: &str) {
    if let Some(named) = live.owner_references().iter().find(|one| one.uid == uid) {
        desired["metadata"]["ownerReferences"] = json!([named]);
    }
}

/// Keeps the pods of a Deployment that the first operator made, as long as the resource asks for
/// nothing new of them. `takes_any_release` is true where the resource names a distribution: then
/// the release that runs goes on running.
pub(crate) fn keep_pods(live: &DynamicObject, desired: &mut Value, takes_any_release: bool) {
    let template = &desired["spec"]["template"];
    let for_ours = digest::label(&template.to_string());
    let theirs = &live.data["spec"]["template"];
    let is_kept = match live.labels().get(KEPT_FOR) {
        Some(kept_for) => *kept_for == for_ours,
        None => {
            !live.labels().contains_key(DESIRED_DIGEST)
                && asks_for_nothing_new(theirs, template, takes_any_release)
        }
    };
    // A template that is ours already needs no keeping.
    if is_kept && !holds(theirs, template) {
        desired["spec"]["template"] = theirs.clone();
        desired["metadata"]["labels"][KEPT_FOR] = json!(for_ours);
    }
}

/// Whether two templates differ only in how the two operators do things.
fn asks_for_nothing_new(theirs: &Value, ours: &Value, takes_any_release: bool) -> bool {
    let container = |template: &Value| template["spec"]["containers"][0].clone();
    let starts_by_script = container(theirs)["command"][0] == "/bin/sh"
        && container(theirs)["command"][2]
            .as_str()
            .is_some_and(|script| script.contains("llama_stack"));
    let is_same_image = repository(&container(theirs)) == repository(&container(ours));
    let neutral = |template: &Value| {
        let mut template = template.clone();
        remove(&mut template["metadata"], "annotations");
        remove(&mut template["spec"]["securityContext"], "seccompProfile");
        let container = &mut template["spec"]["containers"][0];
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            remove(container, probe);
        }
        remove(container, "securityContext");
        if starts_by_script {
            remove(container, "command");
            remove(container, "args");
        }
        if takes_any_release && is_same_image {
            remove(container, "image");
        }
        if let Some(variables) = container["env"].as_array_mut() {
            variables.retain(|one| one["name"] != CONFIG_PATH_VARIABLE);
        }
        template
    };
    holds(&neutral(theirs), &neutral(ours))
}

/// An image without tag and digest.
fn repository(container: &Value) -> Option<&str> {
    let image = container["image"].as_str()?;
    let image = image.split('@').next()?;
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    Some(
        image[name..]
            .find(':')
            .map_or(image, |colon| &image[..name + colon]),
    )
}

fn remove(of: &mut Value, key: &str) {
    if let Some(map) = of.as_object_mut() {
        map.remove(key);
    }
}

fn is_created_by_first(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIRST_OPERATOR)
        && entry.operation.as_deref() == Some(UPDATE)
        && entry.subresource.is_none()
}

fn is_apply_of_another(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some(APPLY) && entry.subresource.is_none() && !is_ours(entry)
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(labels::FIELD_MANAGER)
        && entry.operation.as_deref() == Some(APPLY)
        && entry.subresource.is_none()
}

/// Sets of fields are trees of objects.
fn unite(into: &mut Value, other: &Value) {
    let (Value::Object(into), Value::Object(other)) = (into, other) else {
        return;
    };
    for (key, value) in other {
        unite(
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
    fn both_entries_of_the_first_operator_become_one_of_ours_and_the_clusters_stay() {
        let spec = |field: &str| json!({"f:spec": {field: {}}});
        let metadata = metadata(vec![
            entry("demo", "Apply", "", spec("f:a")),
            entry("manager", "Update", "", spec("f:b")),
            entry("kube-controller-manager", "Update", "status", json!({})),
            entry("kube-controller-manager", "Update", "scale", json!({})),
        ]);
        assert!(may_concern(&metadata));
        let moved = moved(&metadata, "demo").expect("something to move");
        assert_eq!(
            names(&moved),
            [
                "kube-controller-manager/status",
                "kube-controller-manager/scale",
                "llsd/",
            ]
        );
        let FieldsV1(fields) = moved[2].fields_v1.as_ref().expect("fields");
        assert_eq!(*fields, json!({"f:spec": {"f:a": {}, "f:b": {}}}));
    }

    #[test]
    fn an_apply_of_somebody_else_is_not_taken() {
        let metadata = metadata(vec![
            entry("argocd", "Apply", "", json!({})),
            entry("llsd", "Apply", "", json!({})),
        ]);
        assert_eq!(moved(&metadata, "demo"), None);
    }

    #[test]
    fn a_released_field_leaves_the_others() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {}}});
        let metadata = metadata(vec![entry("llsd", "Apply", "", fields)]);
        let entries = released(&metadata, &["spec", "replicas"]).expect("was ours");
        let FieldsV1(fields) = entries[0].fields_v1.as_ref().expect("fields");
        assert_eq!(*fields, json!({"f:spec": {"f:template": {}}}));
        assert_eq!(released(&metadata, &["spec", "paused"]), None);
    }

    fn template(image: &str, variable: &str) -> Value {
        json!({"metadata": {"labels": {"app": "llama-stack"}}, "spec": {"containers": [{
            "name": "llama-stack", "image": image, "env": [{"name": variable, "value": "1"}],
        }]}})
    }

    fn deployment(template: &Value, labels: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "demo", "labels": labels},
            "spec": {"template": template},
        }))
        .expect("a Deployment")
    }

    fn applied(live: &DynamicObject, ours: &Value, takes_any_release: bool) -> Value {
        let mut desired = json!({"metadata": {"labels": {}}, "spec": {"template": ours}});
        keep_pods(live, &mut desired, takes_any_release);
        desired
    }

    #[test]
    fn pods_of_an_older_release_of_a_named_distribution_are_kept_until_something_is_asked_for() {
        let theirs = template("docker.io/llamastack/distribution-starter:0.6.0", "A");
        let ours = template("docker.io/llamastack/distribution-starter:0.7.1", "A");
        let first = applied(&deployment(&theirs, json!({})), &ours, true);
        assert_eq!(first["spec"]["template"], theirs);

        let labels = first["metadata"]["labels"].clone();
        let live = deployment(&theirs, labels);
        assert_eq!(applied(&live, &ours, true), first);
        let changed = template("docker.io/llamastack/distribution-starter:0.7.1", "B");
        let then = applied(&live, &changed, true);
        assert_eq!(then["spec"]["template"], changed);
        assert_eq!(then["metadata"]["labels"], json!({}));
    }

    #[test]
    fn an_owner_goes_on_being_called_as_it_was_and_a_missing_one_is_named() {
        let reference = |version: &str| json!([{"apiVersion": version, "kind": "LlamaStackDistribution", "name": "demo", "uid": "u"}]);
        let kept = |live: Value| {
            let live: DynamicObject = serde_json::from_value(
                json!({"metadata": {"name": "demo", "ownerReferences": live}}),
            )
            .expect("an object");
            let mut desired =
                json!({"metadata": {"ownerReferences": reference("llamastack.io/v1alpha2")}});
            keep_owner(&live, &mut desired, "u");
            desired["metadata"]["ownerReferences"][0]["apiVersion"].clone()
        };
        assert_eq!(
            kept(reference("llamastack.io/v1alpha1")),
            "llamastack.io/v1alpha1"
        );
        assert_eq!(kept(json!([])), "llamastack.io/v1alpha2");
    }

    #[test]
    fn an_image_that_the_resource_names_itself_is_not_kept_back() {
        let theirs = template("registry:5000/server:1", "A");
        let ours = template("registry:5000/server:2", "A");
        let live = deployment(&theirs, json!({}));
        assert_eq!(applied(&live, &ours, false)["spec"]["template"], ours);
    }

    #[test]
    fn a_template_that_was_ours_before_is_never_kept() {
        let live = deployment(&template("a:1", "A"), json!({DESIRED_DIGEST: "x"}));
        let ours = template("a:2", "A");
        assert_eq!(applied(&live, &ours, true)["spec"]["template"], ours);
    }

    #[test]
    fn a_deployment_without_owner_is_an_orphan_only_with_our_label_and_selector() {
        let selector = json!({"matchLabels": {"app": "llama-stack"}});
        let desired = json!({"spec": {"selector": selector}});
        let live = |label: &str, selector: &Value, owners: Value| {
            let labels = json!({labels::MANAGED_BY: label});
            let object = json!({"metadata": {"labels": labels, "ownerReferences": owners}, "spec": {"selector": selector}});
            serde_json::from_value::<DynamicObject>(object).expect("a Deployment")
        };
        let owner = json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]);
        assert!(is_orphan(
            &live(labels::MANAGER, &selector, json!([])),
            &desired
        ));
        assert!(!is_orphan(
            &live(labels::MANAGER, &selector, owner),
            &desired
        ));
        assert!(!is_orphan(&live("Helm", &selector, json!([])), &desired));
        assert!(!is_orphan(
            &live(labels::MANAGER, &json!({}), json!([])),
            &desired
        ));
    }
}

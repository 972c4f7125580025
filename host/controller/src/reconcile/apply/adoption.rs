//! Adopts the Deployments of llama-stack-k8s-operator without replacing their pods.
//!
//! In: the live and the desired Deployment. Out: the desired one with the owner reference and, if
//! possible, the pod template of the live one.

use kube::ResourceExt;
use kube::api::DynamicObject;
use llsd_api::labels;
use llsd_render::digest;
use llsd_render::objects::DESIRED_DIGEST;
use serde_json::{Value, json};

use super::contains::contains;

/// Label of a Deployment that still has the pod template of llama-stack-k8s-operator: a digest of the
/// template that we would have applied. While that digest stays the same, the template stays.
const TEMPLATE_KEPT_FOR: &str = "llamastack.io/template-kept-for";
/// A variable of our pod template that the template of llama-stack-k8s-operator lacks.
const CONFIG_PATH_VARIABLE: &str = "RUN_CONFIG_PATH";

/// Whether a Deployment of this resource has no owner. llama-stack-k8s-operator loses the owner
/// reference when it replaces a Deployment.
pub(super) fn is_orphan(live: &DynamicObject, desired: &Value) -> bool {
    let managed_by = live.labels().get(labels::MANAGED_BY).map(String::as_str);
    live.owner_references().is_empty()
        && managed_by == Some(labels::MANAGER)
        && live.data["spec"]["selector"] == desired["spec"]["selector"]
}

/// Keeps the owner reference of an object. llama-stack-k8s-operator wrote it with another API
/// version, and clusters that enforce it require the permission to delete the object for a change.
pub(super) fn keep_owner(live: &DynamicObject, desired: &mut Value, uid: &str) {
    if let Some(named) = live.owner_references().iter().find(|one| one.uid == uid) {
        desired["metadata"]["ownerReferences"] = json!([named]);
    }
}

/// Whether a Deployment still has the pod template of llama-stack-k8s-operator.
pub(super) fn is_template_kept(live: &DynamicObject) -> bool {
    live.labels().contains_key(TEMPLATE_KEPT_FOR)
}

/// Keeps the pod template of llama-stack-k8s-operator, and so its pods, until the resource asks for
/// something new. `allows_any_release` is true if the resource uses a distribution by name: then the
/// running release stays.
pub(super) fn keep_template(live: &DynamicObject, desired: &mut Value, allows_any_release: bool) {
    let template = &desired["spec"]["template"];
    let desired_digest = digest::label(&template.to_string());
    let theirs = &live.data["spec"]["template"];
    let is_kept = match live.labels().get(TEMPLATE_KEPT_FOR) {
        Some(kept_for) => *kept_for == desired_digest,
        None => {
            !live.labels().contains_key(DESIRED_DIGEST)
                && is_equivalent(theirs, template, allows_any_release)
        }
    };
    // A live template that already contains ours needs no exception.
    if is_kept && !contains(theirs, template) {
        desired["spec"]["template"] = theirs.clone();
        desired["metadata"]["labels"][TEMPLATE_KEPT_FOR] = json!(desired_digest);
    }
}

/// Whether two templates differ only in implementation details of the two operators.
fn is_equivalent(theirs: &Value, ours: &Value, allows_any_release: bool) -> bool {
    let container = |template: &Value| template["spec"]["containers"][0].clone();
    let starts_by_script = container(theirs)["command"][0] == "/bin/sh"
        && container(theirs)["command"][2]
            .as_str()
            .is_some_and(|script| script.contains("llama_stack"));
    let is_same_image = repository(&container(theirs)) == repository(&container(ours));
    let normalized = |template: &Value| {
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
        if allows_any_release && is_same_image {
            remove(container, "image");
        }
        if let Some(variables) = container["env"].as_array_mut() {
            variables.retain(|one| one["name"] != CONFIG_PATH_VARIABLE);
        }
        template
    };
    contains(&normalized(theirs), &normalized(ours))
}

/// The image of a container without tag and digest.
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

#[cfg(test)]
mod tests {
    use super::*;

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

    fn applied(live: &DynamicObject, ours: &Value, allows_any_release: bool) -> Value {
        let mut desired = json!({"metadata": {"labels": {}}, "spec": {"template": ours}});
        keep_template(live, &mut desired, allows_any_release);
        desired
    }

    #[test]
    fn the_template_of_an_older_release_stays_until_the_resource_changes() {
        let theirs = template("docker.io/llamastack/distribution-starter:0.6.0", "A");
        let ours = template("docker.io/llamastack/distribution-starter:0.7.1", "A");
        let first = applied(&deployment(&theirs, json!({})), &ours, true);
        assert_eq!(first["spec"]["template"], theirs);
        let live = deployment(&theirs, first["metadata"]["labels"].clone());
        assert!(is_template_kept(&live));

        let labels = first["metadata"]["labels"].clone();
        let live = deployment(&theirs, labels);
        assert_eq!(applied(&live, &ours, true), first);
        let changed = template("docker.io/llamastack/distribution-starter:0.7.1", "B");
        let then = applied(&live, &changed, true);
        assert_eq!(then["spec"]["template"], changed);
        assert_eq!(then["metadata"]["labels"], json!({}));
    }

    #[test]
    fn an_existing_owner_reference_stays_and_a_missing_one_is_added() {
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
    fn an_image_that_the_resource_sets_is_applied() {
        let theirs = template("registry:5000/server:1", "A");
        let ours = template("registry:5000/server:2", "A");
        let live = deployment(&theirs, json!({}));
        assert_eq!(applied(&live, &ours, false)["spec"]["template"], ours);
    }

    #[test]
    fn a_template_that_we_wrote_is_always_replaced() {
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

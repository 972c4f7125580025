//! Adopts the Deployments of llama-stack-k8s-operator, and of ogx-k8s-operator, without replacing their pods.
//!
//! In: the live and the desired Deployment. Out: the owner reference and, if possible, the pod template
//! that stay.

use k8s_openapi::api::core::v1::{EnvVar, VolumeMount};
use kube::ResourceExt;
use kube::api::DynamicObject;
use llsd_api::checked::{Checked, ServerSource};
use llsd_api::{Distribution, labels};
use llsd_render::objects::{DESIRED_DIGEST, Kind, Owner};
use serde_json::{Value, json};

use super::contains::contains;
use super::object_sync::is_ours;

/// The field of a Deployment with the deadline of its rollout.
const DEADLINE: &str = "progressDeadlineSeconds";
/// Label of a Deployment that still has the pod template of llama-stack-k8s-operator: a digest of the
/// template that we would have applied.
pub(crate) const TEMPLATE_KEPT_FOR: &str = "llamastack.io/template-kept-for";
/// The variables that llama-stack-k8s-operator sets in every pod.
const UPSTREAM_VARIABLES: [&str; 5] = [
    "HF_HOME",
    "SSL_CERT_FILE",
    "LLS_WORKERS",
    "LLS_PORT",
    "LLAMA_STACK_CONFIG",
];
/// Fields of the pod that only one of the two operators sets.
const POD_DETAILS: [&str; 2] = ["enableServiceLinks", "automountServiceAccountToken"];
/// Fields of the server container that each operator sets in its own way.
const CONTAINER_DETAILS: [&str; 6] = [
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
    "lifecycle",
    "securityContext",
    "terminationMessagePolicy",
];

/// What a resource says about its pods, as far as it decides whether adopted pods stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested<'a> {
    /// Whether the resource uses a distribution by name: then the running release stays.
    pub(crate) any_release: bool,
    /// The variables of the resource. Each operator adds variables of its own.
    pub(crate) variables: &'a [EnvVar],
    /// The mounts of the resource.
    pub(crate) mounts: &'a [VolumeMount],
    /// Whether the server was adopted from ogx-k8s-operator. Its pods differ from ours in the names of
    /// containers, volumes and variables, so `llsd adopt` tells what the resource changes later.
    pub(crate) is_of_ogx: bool,
}

impl<'a> Requested<'a> {
    pub(crate) fn of(checked: &'a Checked) -> Self {
        let overrides = &checked.workload.overrides;
        Self {
            any_release: matches!(checked.server, ServerSource::Named(_)),
            variables: overrides.env.as_deref().unwrap_or_default(),
            mounts: overrides.volume_mounts.as_deref().unwrap_or_default(),
            is_of_ogx: checked.pod_app == labels::OGX_APP,
        }
    }
}

/// Whether an object of this resource has no owner. `kubectl delete --cascade=orphan` leaves such
/// objects for a resource of the same name, and llama-stack-k8s-operator loses the owner reference when
/// it replaces a Deployment.
pub(super) fn is_orphan(live: &DynamicObject, desired: &Value) -> bool {
    let selector = &desired["spec"]["selector"];
    is_unowned_child(live) && (selector.is_null() || live.data["spec"]["selector"] == *selector)
}

/// Whether an object is a child object without an owner.
pub(super) fn is_unowned_child(live: &DynamicObject) -> bool {
    let managed_by = live.labels().get(labels::MANAGED_BY).map(String::as_str);
    live.owner_references().is_empty() && managed_by == Some(labels::MANAGER)
}

/// Whether an object was created for this resource, and not for an earlier one of its name. llama-stack-k8s-operator
/// loses the owner reference when it replaces a Deployment, but the new one is younger than the resource.
pub(crate) fn was_created_for(live: &DynamicObject, cr: &Distribution, owner: &Owner) -> bool {
    let is_younger = live.metadata.creation_timestamp >= cr.metadata.creation_timestamp;
    is_ours(live, owner) || (is_unowned_child(live) && is_younger)
}

/// Whether an orphan of a kind is adopted without becoming its owner. Where the cluster enforces it, an
/// owner must be permitted to delete the object, and the operator may not delete objects of these kinds.
pub(super) fn stays_unowned(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PersistentVolumeClaim | Kind::Service | Kind::ServiceAccount
    )
}

/// Removes the owner reference.
pub(super) fn remove_owner(desired: &mut Value) {
    remove(&mut desired["metadata"], "ownerReferences");
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

/// A pod template that stays, and with it its pods.
#[derive(Debug, PartialEq)]
pub(crate) struct KeptTemplate {
    pub(crate) template: Value,
    /// The deadline of its rollout, which belongs to its startup probe; `None` if it is ours.
    pub(crate) deadline: Option<Value>,
    /// Whether llama-stack-k8s-operator made it.
    pub(crate) is_of_upstream: bool,
}

/// The pod template of a Deployment that was made before its resolution was recorded, if it is what
/// the resource asks for: by an earlier release of this operator, whose last reconciliation applied
/// the current spec (`is_applied`), or by llama-stack-k8s-operator.
pub(crate) fn kept_template(
    live: &DynamicObject,
    ours: &Value,
    requested: Requested<'_>,
    is_applied: bool,
) -> Option<KeptTemplate> {
    let theirs = &live.data["spec"]["template"];
    if contains(theirs, ours) {
        return Some(KeptTemplate {
            template: ours.clone(),
            deadline: None,
            is_of_upstream: false,
        });
    }
    let was_adopted = live.labels().contains_key(TEMPLATE_KEPT_FOR);
    let (is_kept, is_of_upstream) = match live.labels().contains_key(DESIRED_DIGEST) {
        true => (is_applied, was_adopted),
        false if requested.is_of_ogx => (has_same_image(theirs, ours), true),
        false => (is_equivalent(theirs, ours, requested), true),
    };
    is_kept.then(|| KeptTemplate {
        template: theirs.clone(),
        deadline: live.data["spec"].get(DEADLINE).cloned(),
        is_of_upstream,
    })
}

fn has_same_image(theirs: &Value, ours: &Value) -> bool {
    let image = |template: &Value| template["spec"]["containers"][0]["image"].clone();
    image(theirs) == image(ours)
}

/// Whether two templates differ only in implementation details of the two operators.
fn is_equivalent(theirs: &Value, ours: &Value, requested: Requested<'_>) -> bool {
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
        for detail in POD_DETAILS {
            remove(&mut template["spec"], detail);
        }
        let container = &mut template["spec"]["containers"][0];
        for detail in CONTAINER_DETAILS {
            remove(container, detail);
        }
        if starts_by_script {
            remove(container, "command");
            remove(container, "args");
        }
        if requested.any_release && is_same_image {
            remove(container, "image");
        }
        template
    };
    let (mut theirs, mut ours) = (normalized(theirs), normalized(ours));
    let is_requested = |variable: &Value| {
        let mut all = requested.variables.iter();
        all.any(|one| variable["name"] == one.name)
    };
    // A variable that neither the resource nor upstream sets was removed from the resource.
    retain(&mut theirs, "env", |one| {
        is_requested(one) || UPSTREAM_VARIABLES.iter().all(|name| one["name"] != *name)
    });
    retain(&mut ours, "env", is_requested);
    let upstream_mounts = theirs["spec"]["containers"][0]["volumeMounts"].clone();
    retain(&mut ours, "volumeMounts", |mount| {
        let has_path = |one: &Value| one["mountPath"] == mount["mountPath"];
        let mut requested = requested.mounts.iter();
        requested.any(|one| mount["mountPath"] == one.mount_path)
            || upstream_mounts
                .as_array()
                .into_iter()
                .flatten()
                .any(has_path)
    });
    contains(&theirs, &ours)
}

/// Keeps the entries of a list of the server container for which `keeps` holds.
fn retain(template: &mut Value, list: &str, keeps: impl Fn(&Value) -> bool) {
    let entries = template.pointer_mut(&format!("/spec/containers/0/{list}"));
    if let Some(entries) = entries.and_then(Value::as_array_mut) {
        entries.retain(keeps);
    }
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
            "spec": {"template": template, "progressDeadlineSeconds": 600},
        }))
        .expect("a Deployment")
    }

    fn kept(live: &DynamicObject, ours: &Value, any_release: bool) -> Option<Value> {
        let kept = kept_with(live, ours, any_release, &["A", "B"], false);
        kept.map(|kept| kept.template)
    }

    fn kept_with(
        live: &DynamicObject,
        ours: &Value,
        any_release: bool,
        variables: &[&str],
        is_applied: bool,
    ) -> Option<KeptTemplate> {
        let variables: Vec<EnvVar> = variables
            .iter()
            .map(|name| EnvVar {
                name: (*name).to_owned(),
                ..EnvVar::default()
            })
            .collect();
        let requested = Requested {
            any_release,
            variables: &variables,
            mounts: &[],
            is_of_ogx: false,
        };
        kept_template(live, ours, requested, is_applied)
    }

    #[test]
    fn the_template_of_an_older_release_stays() {
        let theirs = template("docker.io/llamastack/distribution-starter:0.6.0", "A");
        let ours = template("docker.io/llamastack/distribution-starter:0.7.1", "A");
        let live = deployment(&theirs, json!({}));
        assert_eq!(kept(&live, &ours, true), Some(theirs.clone()));
        let changed = template("docker.io/llamastack/distribution-starter:0.7.1", "B");
        assert_eq!(kept(&live, &changed, true), None);
    }

    #[test]
    fn a_template_of_ogx_stays_if_the_resource_has_its_image() {
        let theirs = json!({"metadata": {"labels": {"app": "ogx"}}, "spec": {"containers": [{
            "name": "ogx", "image": "a:1", "env": [{"name": "OGX_PORT", "value": "8321"}],
        }]}});
        let live = deployment(&theirs, json!({}));
        let kept = |image: &str| {
            let requested = Requested {
                any_release: false,
                variables: &[],
                mounts: &[],
                is_of_ogx: true,
            };
            let kept = kept_template(&live, &template(image, "A"), requested, false)?;
            Some((kept.template, kept.is_of_upstream))
        };
        assert_eq!(kept("a:1"), Some((theirs.clone(), true)));
        assert_eq!(kept("a:2"), None);
    }

    #[test]
    fn what_only_our_template_sets_replaces_no_adopted_pod() {
        let pod = |container: Value, more: Value| {
            let mut spec = json!({"containers": [container]});
            let more = more.as_object().expect("an object").clone();
            spec.as_object_mut().expect("an object").extend(more);
            json!({"metadata": {"labels": {"app": "llama-stack"}}, "spec": spec})
        };
        let variable = |name: &str| json!({"name": name, "value": "1"});
        let mount = |path: &str| json!({"name": "lls-storage", "mountPath": path});
        let theirs = json!({
            "name": "llama-stack", "image": "a:1",
            "env": [variable("HF_HOME"), variable("A")],
            "volumeMounts": [mount("/.llama")],
            "terminationMessagePolicy": "File",
        });
        let ours = json!({
            "name": "llama-stack", "image": "a:1",
            "env": [variable("HF_HOME"), variable("OGX_PORT"), variable("SQLITE_STORE_DIR"), variable("A")],
            "volumeMounts": [mount("/.llama"), mount("/root/.llama")],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            "securityContext": {"allowPrivilegeEscalation": false},
            "readinessProbe": {"periodSeconds": 10},
        });
        let ours = pod(
            ours,
            json!({
                "enableServiceLinks": false, "automountServiceAccountToken": false,
                "securityContext": {"fsGroup": 1001, "seccompProfile": {"type": "RuntimeDefault"}},
            }),
        );
        let theirs = pod(theirs, json!({"securityContext": {"fsGroup": 1001}}));
        let live = deployment(&theirs, json!({}));
        let expected = KeptTemplate {
            template: theirs,
            deadline: Some(json!(600)),
            is_of_upstream: true,
        };
        let kept = kept_with(&live, &ours, false, &["A"], false);
        assert_eq!(kept, Some(expected));
        for (change, variables) in [("added", ["A", "OGX_PORT"].as_slice()), ("removed", &[])] {
            let replaced = kept_with(&live, &ours, false, variables, false);
            assert_eq!(replaced, None, "{change}");
        }
    }

    #[test]
    fn an_orphan_of_any_kind_is_adopted_unless_it_selects_other_pods() {
        let object = |labels: Value, owners: Value, selector: Value| -> DynamicObject {
            let metadata = json!({"name": "demo", "labels": labels, "ownerReferences": owners});
            let object = json!({"metadata": metadata, "spec": {"selector": selector}});
            serde_json::from_value(object).expect("an object")
        };
        let ours = json!({"app.kubernetes.io/managed-by": labels::MANAGER});
        let nobody = json!([]);
        let (claim, service) = (
            json!({"spec": {}}),
            json!({"spec": {"selector": {"a": "b"}}}),
        );
        let orphan = object(ours.clone(), nobody.clone(), json!({"a": "b"}));
        assert!(is_orphan(&orphan, &claim) && is_orphan(&orphan, &service));
        let other_pods = object(ours.clone(), nobody.clone(), json!({"a": "c"}));
        assert!(!is_orphan(&other_pods, &service));
        let of_someone = object(json!({}), nobody, json!({"a": "b"}));
        assert!(!is_orphan(&of_someone, &service));
        let owner = json!([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}]);
        assert!(!is_orphan(
            &object(ours, owner, json!({"a": "b"})),
            &service
        ));
    }

    #[test]
    fn an_orphan_of_an_earlier_resource_was_not_created_for_this_one() {
        let cr: Distribution = serde_json::from_value(json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo", "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"distribution": {"name": "starter"}},
        }))
        .expect("a resource");
        let owner = Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "u".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        };
        let live = |created: &str, manager: &str, owners: Value| {
            let metadata = json!({
                "name": "demo", "creationTimestamp": created, "ownerReferences": owners,
                "labels": {labels::MANAGED_BY: manager},
            });
            let object = serde_json::from_value(json!({"metadata": metadata}));
            was_created_for(&object.expect("an object"), &cr, &owner)
        };
        let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
        let by = |uid: &str| json!([{"apiVersion": "v1", "kind": "A", "name": "demo", "uid": uid}]);
        assert!(live(after, labels::MANAGER, json!([])));
        assert!(live(after, labels::MANAGER, by("u")));
        assert!(!live(before, labels::MANAGER, json!([])));
        assert!(!live(after, "Helm", json!([])));
        assert!(!live(after, labels::MANAGER, by("other")));
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
        let live = deployment(&template("registry:5000/server:1", "A"), json!({}));
        let ours = template("registry:5000/server:2", "A");
        assert_eq!(kept(&live, &ours, false), None);
    }

    #[test]
    fn a_template_that_we_wrote_stays_only_if_it_was_written_for_the_current_spec() {
        let theirs = template("a:1", "A");
        let live = deployment(&theirs, json!({DESIRED_DIGEST: "x"}));
        let ours = template("a:2", "A");
        let kept = |is_applied| kept_with(&live, &ours, true, &["A"], is_applied);
        assert_eq!(kept(false), None);
        let expected = KeptTemplate {
            template: theirs,
            deadline: Some(json!(600)),
            is_of_upstream: false,
        };
        assert_eq!(kept(true), Some(expected));
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

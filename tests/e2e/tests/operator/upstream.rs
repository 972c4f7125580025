//! Recreates in a namespace what llama-stack-k8s-operator 0.9 left in a cluster: the same objects with the
//! same field managers.
//!
//! `fixtures/upstream/<case>.yaml` holds a ready resource and its children, `<case>.input.yaml` what the
//! user created. Values that a cluster assigns (uids, addresses, versions) are replaced by live ones.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use llsd_api::Distribution;
use llsd_api::conversion::{Version, convert};
use llsd_e2e::{DEADLINE, TestEnv};
use llsd_testbed::eventually;
use serde_json::{Map, Value, json};

/// The namespace of llama-stack-k8s-operator in the fixtures.
const OPERATOR_NAMESPACE: &str = "llama-stack-k8s-operator-system";

/// One case of the fixtures.
pub(crate) struct UpstreamSnapshot {
    /// What the user created.
    pub(crate) input: &'static str,
    /// What the cluster held afterwards.
    pub(crate) result: &'static str,
    /// The namespace in the fixtures.
    pub(crate) namespace: &'static str,
}

macro_rules! snapshot {
    ($case:literal) => {
        UpstreamSnapshot {
            input: include_str!(concat!("../../fixtures/upstream/", $case, ".input.yaml")),
            result: include_str!(concat!("../../fixtures/upstream/", $case, ".yaml")),
            namespace: concat!("up-", $case),
        }
    };
}
pub(crate) use snapshot;

impl UpstreamSnapshot {
    /// Recreates every object, waits until the pods run, and returns the name of the resource.
    pub(crate) async fn recreate(&self, env: &TestEnv) -> String {
        let namespace = env.namespace.name();
        for object in documents(self.input, self.namespace, namespace) {
            match object["kind"].as_str() {
                Some("Namespace" | "LlamaStackDistribution") => {}
                _ => create(env, object, "kubectl-create").await,
            }
        }
        let (resources, children): (Vec<_>, Vec<_>) =
            documents(self.result, self.namespace, namespace)
                .into_iter()
                .partition(|object| object["kind"] == "LlamaStackDistribution");
        let name = resources[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let resource = resource(self.input, self.namespace, namespace);
        let api = env.api::<Distribution>();
        let live = api.create(&PostParams::default(), &resource).await.unwrap();
        let uid = live.metadata.uid.unwrap();
        let reported = json!({"status": {"phase": resources[0]["status"]["phase"]}});
        let parameters = PatchParams::default();
        api.patch_status(&name, &parameters, &Patch::Merge(reported))
            .await
            .unwrap();
        // An autoscaler sets the number of replicas some seconds later.
        let deployment = children.iter().find(|child| child["kind"] == "Deployment");
        let pods = deployment.and_then(|child| child["spec"]["replicas"].as_i64());
        for child in children {
            restore(env, child, &uid).await;
        }
        let deployments = env.api::<Deployment>();
        let runs = |one: Option<&Deployment>| {
            one.and_then(|one| one.status.as_ref())
                .is_some_and(|status| {
                    status.available_replicas.map(i64::from) == pods
                        && status.available_replicas == status.replicas
                })
        };
        eventually(&deployments, &name, DEADLINE, "running", runs)
            .await
            .unwrap();
        name
    }
}

/// The resource, converted to v1alpha2.
fn resource(input: &str, from: &str, to: &str) -> Distribution {
    let first = documents(input, from, to)
        .into_iter()
        .find(|object| object["kind"] == "LlamaStackDistribution")
        .unwrap();
    serde_json::from_value(convert(first, Version::V1Alpha2).unwrap()).unwrap()
}

/// Creates a child, then applies the fields that each field manager applied.
async fn restore(env: &TestEnv, mut child: Value, uid: &str) {
    let metadata = child["metadata"].as_object_mut().unwrap();
    let managers = metadata.remove("managedFields").unwrap_or_default();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "annotations",
        "finalizers",
    ] {
        metadata.remove(key);
    }
    for owner in metadata["ownerReferences"].as_array_mut().unwrap() {
        owner["uid"] = json!(uid);
    }
    let whole = child.clone();
    child.as_object_mut().unwrap().remove("status");
    if let Some(spec) = child["spec"].as_object_mut() {
        for key in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "volumeName",
        ] {
            spec.remove(key);
        }
        let is_scaled = managers
            .as_array()
            .into_iter()
            .flatten()
            .any(|entry| entry["subresource"] == "scale");
        if is_scaled {
            spec.remove("replicas");
        }
    }
    create(env, child.clone(), "manager").await;
    for entry in managers.as_array().into_iter().flatten() {
        if entry["operation"] != "Apply" {
            continue;
        }
        let mut part = project(&whole, &entry["fieldsV1"]);
        part["apiVersion"] = child["apiVersion"].clone();
        part["kind"] = child["kind"].clone();
        part["metadata"]["name"] = child["metadata"]["name"].clone();
        let manager = entry["manager"].as_str().unwrap();
        let name = child["metadata"]["name"].as_str().unwrap();
        api(env, &child)
            .patch(
                name,
                &PatchParams::apply(manager).force(),
                &Patch::Apply(&part),
            )
            .await
            .unwrap();
    }
}

/// The part of an object that a `fieldsV1` set selects.
fn project(object: &Value, fields: &Value) -> Value {
    let fields = fields.as_object().unwrap();
    if !fields
        .keys()
        .any(|key| key.starts_with("f:") || key.starts_with("k:"))
    {
        return object.clone();
    }
    match object {
        Value::Array(items) => {
            let select = |item: &Value| {
                fields.iter().find_map(|(key, below)| {
                    let key: Map<String, Value> =
                        serde_json::from_str(key.strip_prefix("k:")?).ok()?;
                    let is_this = key.iter().all(|(name, value)| item[name] == *value);
                    is_this.then(|| project(item, below))
                })
            };
            items.iter().filter_map(select).collect()
        }
        _ => fields
            .iter()
            .filter_map(|(key, below)| {
                let name = key.strip_prefix("f:")?;
                let part = object
                    .get(name)
                    .map_or(json!({}), |part| project(part, below));
                Some((name.to_owned(), part))
            })
            .collect::<Map<_, _>>()
            .into(),
    }
}

async fn create(env: &TestEnv, object: Value, manager: &str) {
    let parameters = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let api = api(env, &object);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&parameters, &object).await.unwrap();
}

fn api(env: &TestEnv, object: &Value) -> Api<DynamicObject> {
    let text = |key: &str| object[key].as_str().unwrap().to_owned();
    let types = TypeMeta {
        api_version: text("apiVersion"),
        kind: text("kind"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap());
    if object["kind"] == "PersistentVolume" {
        return Api::all_with(env.client.clone(), &resource);
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    Api::namespaced_with(env.client.clone(), namespace, &resource)
}

/// Parses the documents and moves them into another namespace. The operator's ConfigMap moves there too,
/// because the operator of a test runs in the namespace that it serves.
fn documents(text: &str, from: &str, to: &str) -> Vec<Value> {
    let text = text.replace(from, to).replace(OPERATOR_NAMESPACE, to);
    serde_saphyr::from_multiple::<Value>(&text)
        .unwrap()
        .into_iter()
        .filter(|one| one["metadata"]["namespace"] == to || one["kind"] == "PersistentVolume")
        .collect()
}

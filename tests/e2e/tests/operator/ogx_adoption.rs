//! `llsd adopt` takes over a server of ogx-k8s-operator, without replacing a pod.

use std::process::Output;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use llsd_api::Distribution;
use llsd_e2e::{DEADLINE, TestEnv};
use llsd_testbed::until;
use serde_json::{Value, json};

const NAME: &str = "chat";
const IMAGE: &str = "docker.io/ogxai/distribution-starter:1.3.0";
const MANAGER: &str = "ogx-operator";

#[tokio::test]
async fn a_server_of_ogx_is_adopted_with_its_pods_and_then_follows_its_resource() {
    let env = TestEnv::new("ogx").await;
    install_definition(&env).await;
    let uid = create_server(&env).await;
    for child in children(&uid) {
        apply(&env, child).await;
    }
    env.wait_for_deployment(NAME, "running", |deployment| {
        let status = deployment.status.as_ref();
        status.is_some_and(|status| status.available_replicas == Some(1))
    })
    .await;
    let before = pods(&env).await;
    let operator = env.start_operator().await;

    let shown = adopt(&operator, &[]);
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("adopted-from: ogx-operator"), "{text}");
    let found = operator.api::<Distribution>().get_opt(NAME).await.unwrap();
    assert!(found.is_none(), "--yes was not given");

    let adopted = adopt(&operator, &["--yes"]);
    assert!(adopted.status.success(), "{adopted:?}");
    let resource = operator.wait_until_ready(NAME).await;
    assert_eq!(pods(&operator).await, before, "a pod was replaced");
    let deployment = operator.api::<Deployment>().get(NAME).await.unwrap();
    assert_eq!(
        deployment.owner_references()[0].uid,
        resource.uid().unwrap()
    );
    assert_selects_ogx(&operator).await;
    let servers = ogx_servers(&operator).get_opt(NAME).await.unwrap();
    assert!(servers.is_none(), "the OGXServer still exists");
    // Nothing is left to do.
    assert!(adopt(&operator, &["--yes"]).status.success());

    let variable = json!([{"name": "TEAM", "value": "ml"}]);
    let change = json!({"spec": {"workload": {"overrides": {"env": variable}}}});
    operator.edit(NAME, change).await;
    operator
        .wait_for_deployment(NAME, "changed", |deployment| {
            json!(deployment.spec)["template"]
                .to_string()
                .contains("TEAM")
        })
        .await;
    until("the pods are replaced", DEADLINE, || async {
        let now = pods(&operator).await;
        anyhow::ensure!(now.len() == 1 && now != before, "{now:?}");
        Ok(())
    })
    .await
    .unwrap();
    operator.wait_until_ready(NAME).await;
    assert_selects_ogx(&operator).await;
}

/// The pods keep the label of their selectors for ever.
async fn assert_selects_ogx(env: &TestEnv) {
    let deployment = env.api::<Deployment>().get(NAME).await.unwrap();
    let labels = &json!(deployment.spec)["selector"]["matchLabels"];
    let expected = json!({"app": "ogx", "app.kubernetes.io/instance": NAME});
    assert_eq!(*labels, expected);
    let service = env.api::<Service>().get("chat-service").await.unwrap();
    assert_eq!(json!(service.spec)["selector"], expected);
}

fn adopt(env: &TestEnv, options: &[&str]) -> Output {
    let program = std::env::var("LLSD_BIN")
        .expect("LLSD_BIN is not set; run the tests with `cargo xtask test`");
    std::process::Command::new(program)
        .args(["adopt", NAME, "--namespace", env.namespace.name()])
        .args(options)
        .env("KUBECONFIG", env.testbed.kubeconfig("admin").unwrap())
        .output()
        .unwrap()
}

async fn pods(env: &TestEnv) -> Vec<String> {
    let all = env.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let alive = all
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut uids: Vec<String> = alive.filter_map(|pod| pod.uid()).collect();
    uids.sort();
    uids
}

fn ogx_servers(env: &TestEnv) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("ogx.io", "v1beta1", "OGXServer");
    let resource = ApiResource::from_gvk_with_plural(&kind, "ogxservers");
    Api::namespaced_with(env.client.clone(), env.namespace.name(), &resource)
}

/// The definition of OGXServers, without its schema.
async fn install_definition(env: &TestEnv) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "ogxservers.ogx.io"},
        "spec": {
            "group": "ogx.io", "scope": "Namespaced",
            "names": {"kind": "OGXServer", "plural": "ogxservers", "singular": "ogxserver"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }))
    .unwrap();
    Api::<CustomResourceDefinition>::all(env.client.clone())
        .patch(
            "ogxservers.ogx.io",
            &PatchParams::apply("tests").force(),
            &Patch::Apply(&definition),
        )
        .await
        .unwrap();
    until("OGXServers are served", DEADLINE, || async {
        ogx_servers(env).list(&ListParams::default()).await?;
        Ok(())
    })
    .await
    .unwrap();
}

/// Creates an OGXServer, and returns its uid.
async fn create_server(env: &TestEnv) -> String {
    let server = json!({
        "apiVersion": "ogx.io/v1beta1", "kind": "OGXServer", "metadata": {"name": NAME},
        "spec": {
            "distribution": {"name": "starter"},
            "monitoring": {"enabled": false},
            "workload": {"replicas": 1},
        },
    });
    let parameters = PatchParams::apply("kubectl").force();
    let created = ogx_servers(env)
        .patch(NAME, &parameters, &Patch::Apply(&server))
        .await
        .unwrap();
    created.uid().unwrap()
}

/// The objects that ogx-k8s-operator writes for the server.
fn children(uid: &str) -> Vec<Value> {
    let selector = json!({"app": "ogx", "app.kubernetes.io/instance": NAME});
    let object = |api_version: &str, kind: &str, suffix: &str, spec: Value| {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": format!("{NAME}{suffix}"),
                "labels": {
                    "app.kubernetes.io/managed-by": MANAGER, "app.kubernetes.io/part-of": "ogx",
                    "ogx.io/watch": "true",
                },
                "ownerReferences": [{
                    "apiVersion": "ogx.io/v1beta1", "kind": "OGXServer", "name": NAME, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    };
    let container = json!({
        "name": "ogx", "image": IMAGE,
        "ports": [{"containerPort": 8321, "protocol": "TCP"}],
        "env": [{"name": "OGX_PORT", "value": "8321"}, {"name": "HF_HOME", "value": "/.ogx"}],
        "volumeMounts": [{"name": "ogx-storage", "mountPath": "/.ogx"}],
    });
    let deployment = json!({
        "replicas": 1, "selector": {"matchLabels": selector},
        "template": {
            "metadata": {"labels": selector},
            "spec": {
                "serviceAccountName": "chat-sa", "containers": [container],
                "volumes": [{"name": "ogx-storage", "emptyDir": {}}],
            },
        },
    });
    let service = json!({
        "selector": selector,
        "ports": [{"name": "http", "port": 8321, "targetPort": 8321, "protocol": "TCP"}],
    });
    let policy = json!({
        "podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 8321, "protocol": "TCP"}]}],
    });
    vec![
        object("v1", "ServiceAccount", "-sa", Value::Null),
        object("v1", "Service", "-service", service),
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "-network-policy",
            policy,
        ),
        object("apps/v1", "Deployment", "", deployment),
    ]
}

async fn apply(env: &TestEnv, object: Value) {
    let text = |key: &str| object[key].as_str().unwrap().to_owned();
    let (group, version) = match text("apiVersion").split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text("apiVersion")),
    };
    let kind = GroupVersionKind::gvk(&group, &version, &text("kind"));
    let resource = ApiResource::from_gvk(&kind);
    let name = object["metadata"]["name"].as_str().unwrap();
    Api::<DynamicObject>::namespaced_with(env.client.clone(), env.namespace.name(), &resource)
        .patch(
            name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&object),
        )
        .await
        .unwrap();
}

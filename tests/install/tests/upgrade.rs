//! The upgrade of a cluster from llama-stack-k8s-operator 0.9: first its CRD and resources, then our
//! operator.
//!
//! `tests/e2e` covers how each field of each child is adopted. This test covers a whole cluster, whose CRD
//! has only v1alpha1.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_install::{Cluster, Objects, checkout, parse};
use llsd_testbed::Testbed;
use llsd_testbed::toolchain::Release;
use serde_json::{Value, json};

const CASES: [&str; 7] = [
    "minimal",
    "minimal-noport",
    "env-storage",
    "user-config",
    "ca-bundle",
    "autoscaling",
    "everything",
];
/// The field manager of llama-stack-k8s-operator.
const UPSTREAM_MANAGER: &str = "--field-manager=manager";

fn fixture(file: &str) -> Objects {
    let path = checkout().join("tests/e2e/fixtures/upstream").join(file);
    parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The CRD of llama-stack-k8s-operator, which has only v1alpha1.
fn upstream_crd() -> Value {
    let file = "deploy/kustomize/crd/llamastack.io_llamastackdistributions.yaml";
    let text = std::fs::read_to_string(checkout().join(file)).unwrap();
    let mut crd = parse(&text).unwrap().into_values().next().unwrap();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["name"] == "v1alpha1");
    versions[0]["storage"] = true.into();
    crd
}

async fn create(testbed: &Testbed, object: &Value) -> Value {
    let arguments = ["create", "--filename=-", "--output=json", UPSTREAM_MANAGER];
    let kubectl = testbed.kubectl("admin").unwrap().args(arguments);
    let created = kubectl.input(object.to_string()).run().await.unwrap();
    serde_json::from_str(&created.success().unwrap()).unwrap()
}

async fn read(testbed: &Testbed, arguments: &[&str]) -> Value {
    let kubectl = testbed
        .kubectl("admin")
        .unwrap()
        .args(["get", "--output=json"]);
    let text = kubectl.args(arguments).run().await.unwrap().success();
    serde_json::from_str(&text.unwrap()).unwrap()
}

/// A child without the fields that the cluster assigns, owned by the recreated resource.
fn without_assigned_fields(mut child: Value, uid: &Value) -> Value {
    let metadata = child["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "annotations",
    ] {
        metadata.remove(key);
    }
    for owner in metadata["ownerReferences"].as_array_mut().unwrap() {
        owner["uid"] = uid.clone();
    }
    child.as_object_mut().unwrap().remove("status");
    if let Some(spec) = child.get_mut("spec").and_then(Value::as_object_mut) {
        for key in ["clusterIP", "clusterIPs"] {
            spec.remove(key);
        }
    }
    child
}

/// The state that must not change: the pod template, the generation of the Deployment, and the pods.
async fn rollout_state(testbed: &Testbed, namespace: &str, name: &str) -> Value {
    let deployment = read(testbed, &["deployment", name, "--namespace", namespace]).await;
    let pods = read(testbed, &["pods", "--namespace", namespace]).await;
    let uids: Vec<&Value> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| &pod["metadata"]["uid"])
        .collect();
    json!({
        "template": deployment["spec"]["template"],
        "generation": deployment["metadata"]["generation"],
        "pods": uids,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_cluster_is_adopted_without_replacing_a_pod() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let kubectl = |arguments: Vec<String>| {
        let kubectl = testbed.kubectl("admin").unwrap().args(arguments);
        async { kubectl.run().await.unwrap().success().unwrap() }
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    create(&testbed, &upstream_crd()).await;
    kubectl(words(
        "wait --for=condition=Established crd/llamastackdistributions.llamastack.io",
    ))
    .await;

    let home = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": "llama-stack-k8s-operator-system" },
    });
    create(&testbed, &home).await;

    let mut servers = Vec::new();
    for case in CASES {
        let mut input = fixture(&format!("{case}.input.yaml"));
        let resource = {
            let key = input
                .keys()
                .find(|key| key.starts_with("LlamaStackDistribution"))
                .unwrap()
                .clone();
            input.remove(&key).unwrap()
        };
        let (namespaces, others): (Vec<Value>, Vec<Value>) = input
            .into_values()
            .partition(|object| object["kind"] == "Namespace");
        for object in namespaces.iter().chain(&others) {
            create(&testbed, object).await;
        }
        let live = create(&testbed, &resource).await;
        let uid = &live["metadata"]["uid"];
        for (key, child) in fixture(&format!("{case}.yaml")) {
            if !key.starts_with("LlamaStackDistribution") {
                create(&testbed, &without_assigned_fields(child, uid)).await;
            }
        }
        let text = |key: &str| live["metadata"][key].as_str().unwrap().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let ready = format!(
            "wait --for=condition=Available deployment/{name} --namespace {namespace} --timeout=100s"
        );
        kubectl(words(&ready)).await;
        let before = rollout_state(&testbed, &namespace, &name).await;
        servers.push((namespace, name, live["spec"].clone(), before));
    }

    let cluster = Cluster::start_on(testbed, "").await.unwrap();
    for (namespace, name, spec, before) in servers {
        let resource = format!("llamastackdistributions.v1alpha2.llamastack.io/{name}");
        let ready = "--for=jsonpath={.status.phase}=Ready";
        let in_namespace = ["--namespace", &namespace];
        let wait = ["wait", ready, &resource, "--timeout=100s"];
        cluster
            .run(&[&wait[..], &in_namespace].concat())
            .await
            .unwrap();
        let testbed = cluster.testbed();
        assert_eq!(
            rollout_state(testbed, &namespace, &name).await,
            before,
            "{namespace}"
        );

        let v1alpha2 = read(testbed, &[&[resource.as_str()][..], &in_namespace].concat()).await;
        assert_eq!(
            v1alpha2["spec"]["distribution"],
            spec["server"]["distribution"]
        );
        let v1alpha1 = format!("llamastackdistributions.v1alpha1.llamastack.io/{name}");
        let v1alpha1 = read(testbed, &[&[v1alpha1.as_str()][..], &in_namespace].concat()).await;
        assert_eq!(v1alpha1["spec"], spec, "{namespace}");
    }
}

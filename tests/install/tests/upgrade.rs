//! From llama-stack-k8s-operator 0.9 to ours: its definition and resources first, then our operator.
//!
//! How each field of each child is taken over is shown by `tests/e2e`; here is the way of a whole
//! cluster, whose resources were stored in v1alpha1 by a definition that knew nothing else.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

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
/// Whoever made the children: the first operator's program.
const FIRST_OPERATOR: &str = "--field-manager=manager";

fn fixture(file: &str) -> Objects {
    let path = checkout()
        .join("tests/e2e/fixtures/first-operator")
        .join(file);
    parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The definition as the first operator had it: v1alpha1 and nothing else.
fn first_definition() -> Value {
    let file = "deploy/kustomize/crd/llamastack.io_llamastackdistributions.yaml";
    let text = std::fs::read_to_string(checkout().join(file)).unwrap();
    let mut definition = parse(&text).unwrap().into_values().next().unwrap();
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["name"] == "v1alpha1");
    versions[0]["storage"] = true.into();
    definition
}

async fn create(testbed: &Testbed, object: &Value) -> Value {
    let arguments = ["create", "--filename=-", "--output=json", FIRST_OPERATOR];
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

/// A child as it was at rest, without what the cluster decides, and owned by the resource of today.
fn restored(mut child: Value, uid: &Value) -> Value {
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

/// What must not change: the pods' template, how often the Deployment changed, and the pods.
async fn running(testbed: &Testbed, namespace: &str, name: &str) -> Value {
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
async fn a_cluster_of_the_first_operator_is_taken_over_without_a_new_pod() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let kubectl = |arguments: Vec<String>| {
        let kubectl = testbed.kubectl("admin").unwrap().args(arguments);
        async { kubectl.run().await.unwrap().success().unwrap() }
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    create(&testbed, &first_definition()).await;
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
                create(&testbed, &restored(child, uid)).await;
            }
        }
        let text = |key: &str| live["metadata"][key].as_str().unwrap().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let ready = format!(
            "wait --for=condition=Available deployment/{name} --namespace {namespace} --timeout=100s"
        );
        kubectl(words(&ready)).await;
        let before = running(&testbed, &namespace, &name).await;
        servers.push((namespace, name, live["spec"].clone(), before));
    }

    let cluster = Cluster::around(testbed, "").await.unwrap();
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
            running(testbed, &namespace, &name).await,
            before,
            "{namespace}"
        );

        let newer = read(testbed, &[&[resource.as_str()][..], &in_namespace].concat()).await;
        assert_eq!(
            newer["spec"]["distribution"],
            spec["server"]["distribution"]
        );
        let older = format!("llamastackdistributions.v1alpha1.llamastack.io/{name}");
        let older = read(testbed, &[&[older.as_str()][..], &in_namespace].concat()).await;
        assert_eq!(older["spec"], spec, "{namespace}");
    }
}

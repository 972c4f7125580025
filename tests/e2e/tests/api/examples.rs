//! `kubectl apply` accepts every example of the specification, the quickstart, the migration guide and
//! the samples of llama-stack-k8s-operator.

use std::path::{Path, PathBuf};

use llsd_testbed::Namespace;
use serde_json::Value;

use crate::test_cluster::{Target, TestCluster, list};

/// Examples that are rejected. Other tests below check the reason.
const REJECTED: [&str; 2] = ["specification/full.yaml", "quickstart/v1alpha1.yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_accepted_as_written_by_the_newest_release() {
    accept_all(TestCluster::newest().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_accepted_as_written_by_the_oldest_release() {
    accept_all(TestCluster::oldest().await).await;
}

async fn accept_all(cluster: &TestCluster) {
    let namespace = cluster.testbed.namespace("examples").await.unwrap();
    let files = accepted_files();
    assert!(files.len() >= 35, "{}", files.len());
    let mut arguments = vec!["apply".to_owned(), "--dry-run=server".to_owned()];
    for file in &files {
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
    }
    apply(cluster, &namespace, &arguments, String::new()).await;

    // Store each under its own name, and read it in both versions.
    let documents: Vec<Value> = files.iter().map(|file| renamed(file)).collect();
    let texts: Vec<String> = documents.iter().map(ToString::to_string).collect();
    let stdin = ["apply", "-f", "-"].map(str::to_owned);
    apply(cluster, &namespace, &stdin, texts.join("\n---\n")).await;
    let client = cluster.client().await;
    let read = async |version| {
        let target = Target {
            namespace: namespace.name(),
            version,
        };
        list(&client, &target).await.unwrap()
    };
    let (old, new) = (read("v1alpha1").await, read("v1alpha2").await);
    assert_eq!((old.len(), new.len()), (documents.len(), documents.len()));
    for document in documents {
        let name = document["metadata"]["name"].as_str().unwrap();
        let (mut sent, shown) = match document["apiVersion"].as_str().unwrap() {
            "llamastack.io/v1alpha1" => (document["spec"].clone(), &old[name]["spec"]),
            _ => (document["spec"].clone(), &new[name]["spec"]),
        };
        // The v1alpha1 schema has a default for this field.
        if let Some(Value::Object(container)) = sent.pointer_mut("/server/containerSpec") {
            container.entry("name").or_insert("llama-stack".into());
        }
        assert_eq!(shown, &sent, "{name}");
        assert!(
            new[name]["spec"]["distribution"]["name"] == "starter",
            "{name}"
        );
        assert!(
            old[name]["spec"]["server"]["distribution"]["name"] == "starter",
            "{name}"
        );
    }
}

async fn apply(cluster: &TestCluster, namespace: &Namespace, arguments: &[String], input: String) {
    let kubectl = cluster.testbed.kubectl("admin").unwrap();
    let applied = kubectl
        .namespace(namespace.name())
        .args(arguments)
        .input(input);
    applied.run().await.unwrap().success().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_example_is_rejected_only_for_its_undefined_provider() {
    let cluster = TestCluster::newest().await;
    let full = std::fs::read_to_string(folder().join("specification/full.yaml")).unwrap();
    let dry_run = async |text: String| {
        let kubectl = cluster.testbed.kubectl("admin").unwrap();
        let apply = kubectl
            .args(["apply", "--dry-run=server", "-f", "-"])
            .input(text);
        apply.run().await.unwrap()
    };
    let error = dry_run(full.clone()).await.failure().unwrap();
    let reasons: Vec<&str> = error
        .lines()
        .filter(|line| line.contains("spec.") && !line.starts_with("Warning"))
        .collect();
    assert_eq!(reasons.len(), 1, "{error}");
    assert!(
        reasons[0].contains("spec.resources.models[1].provider: "),
        "{error}"
    );
    assert!(reasons[0].contains("vllm-primary"), "{error}");
    // The message lists the defined ids.
    assert!(
        reasons[0].contains("vllm") && reasons[0].contains("custom-inference"),
        "{error}"
    );
    dry_run(full.replace("vllm-primary", "vllm"))
        .await
        .success()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_draft_of_the_api_is_rejected_with_a_pointer_to_v1alpha2() {
    let cluster = TestCluster::newest().await;
    let kubectl = cluster.testbed.kubectl("admin").unwrap();
    let file = folder().join("quickstart/v1alpha1.yaml");
    let error = kubectl
        .args(["apply", "--dry-run=server", "-f"])
        .arg(file)
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(error.contains("v1alpha2"), "{error}");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn accepted_files() -> Vec<PathBuf> {
    let files = |folder: PathBuf| {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|one| one.unwrap().path())
    };
    let mut all: Vec<PathBuf> = files(folder()).flat_map(files).collect();
    all.retain(|file| !REJECTED.iter().any(|rejected| file.ends_with(rejected)));
    all.sort();
    all
}

/// The document with a unique name, made from its folder and file name.
fn renamed(file: &Path) -> Value {
    let mut document: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let folder = file
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    document["metadata"]["name"] = format!("{folder}-{stem}").into();
    document
}

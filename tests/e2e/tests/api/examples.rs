//! What the documents promise: every example of the specification, the quickstart, the migration guide
//! and the first operator's samples goes through `kubectl`.

use std::path::{Path, PathBuf};

use llsd_testbed::Namespace;
use serde_json::Value;

use crate::plane::{Plane, Target, list};

/// Examples that are refused as they are written; a test of their own says why.
const REFUSED: [&str; 2] = ["specification/full.yaml", "quickstart/v1alpha1.yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_accepted_as_written_by_the_newest_release() {
    accept_all(Plane::newest().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_accepted_as_written_by_the_oldest_release() {
    accept_all(Plane::oldest().await).await;
}

async fn accept_all(plane: &Plane) {
    let namespace = plane.testbed.namespace("examples").await.unwrap();
    let files = accepted_files();
    assert!(files.len() >= 35, "{}", files.len());
    let mut arguments = vec!["apply".to_owned(), "--dry-run=server".to_owned()];
    for file in &files {
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
    }
    apply(plane, &namespace, &arguments, String::new()).await;

    // Stored under names of their own, each can be read in either version and is what it was.
    let documents: Vec<Value> = files.iter().map(|file| renamed(file)).collect();
    let texts: Vec<String> = documents.iter().map(ToString::to_string).collect();
    let stdin = ["apply", "-f", "-"].map(str::to_owned);
    apply(plane, &namespace, &stdin, texts.join("\n---\n")).await;
    let client = plane.client().await;
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
        // The API server fills this in for v1alpha1, as it always did.
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

async fn apply(plane: &Plane, namespace: &Namespace, arguments: &[String], input: String) {
    let kubectl = plane.testbed.kubectl("admin").unwrap();
    let applied = kubectl
        .namespace(namespace.name())
        .args(arguments)
        .input(input);
    applied.run().await.unwrap().success().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_example_is_refused_for_the_provider_it_does_not_define_and_for_nothing_else() {
    let plane = Plane::newest().await;
    let full = std::fs::read_to_string(folder().join("specification/full.yaml")).unwrap();
    let dry_run = async |text: String| {
        let kubectl = plane.testbed.kubectl("admin").unwrap();
        let apply = kubectl
            .args(["apply", "--dry-run=server", "-f", "-"])
            .input(text);
        apply.run().await.unwrap()
    };
    let said = dry_run(full.clone()).await.failure().unwrap();
    let reasons: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("spec.") && !line.starts_with("Warning"))
        .collect();
    assert_eq!(reasons.len(), 1, "{said}");
    assert!(
        reasons[0].contains("spec.resources.models[1].provider: "),
        "{said}"
    );
    assert!(reasons[0].contains("vllm-primary"), "{said}");
    // The ids that there are.
    assert!(
        reasons[0].contains("vllm") && reasons[0].contains("custom-inference"),
        "{said}"
    );
    dry_run(full.replace("vllm-primary", "vllm"))
        .await
        .success()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_an_abandoned_plan_is_refused_with_a_pointer_to_v1alpha2() {
    let plane = Plane::newest().await;
    let kubectl = plane.testbed.kubectl("admin").unwrap();
    let file = folder().join("quickstart/v1alpha1.yaml");
    let said = kubectl
        .args(["apply", "--dry-run=server", "-f"])
        .arg(file)
        .run()
        .await
        .unwrap()
        .failure()
        .unwrap();
    assert!(said.contains("v1alpha2"), "{said}");
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
    all.retain(|file| !REFUSED.iter().any(|refused| file.ends_with(refused)));
    all.sort();
    all
}

/// The document, named after its file so that no two have one name.
fn renamed(file: &Path) -> Value {
    let mut document: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let book = file
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let page = file.file_stem().unwrap().to_string_lossy().into_owned();
    document["metadata"]["name"] = format!("{book}-{page}").into();
    document
}

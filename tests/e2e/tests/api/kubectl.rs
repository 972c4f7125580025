//! What people type: get, explain, apply and edit, through either version.

use llsd_testbed::{Finished, Namespace};
use serde_json::Value;

use crate::plane::{Plane, Target, list};

const OLD: &str = "llamastackdistributions.v1alpha1.llamastack.io";
const NEW: &str = "llamastackdistributions.v1alpha2.llamastack.io";

const RICH: &str = "
apiVersion: llamastack.io/v1alpha2
kind: LlamaStackDistribution
metadata: {name: rich}
spec:
  distribution: {name: starter}
  providers:
    inference: {provider: vllm, endpoint: 'http://vllm:8000', apiKey: {name: vllm-creds, key: token}}
  networking: {port: 8321, expose: {hostname: llama.example.com}}
  workload: {replicas: 1}
";

async fn kubectl(namespace: &Namespace, arguments: &[&str], input: &str) -> Finished {
    let kubectl = Plane::newest().await.testbed.kubectl("admin").unwrap();
    let command = kubectl
        .namespace(namespace.name())
        .args(arguments)
        .input(input);
    command.run().await.unwrap()
}

/// Runs `kubectl edit` with an editor that replaces one text by another.
async fn edit(namespace: &Namespace, kind: &str, from: &str, to: &str) -> Finished {
    let kubectl = Plane::newest().await.testbed.kubectl("admin").unwrap();
    let editor = format!("sed -i 's/{from}/{to}/'");
    let command = kubectl
        .namespace(namespace.name())
        .args(["edit", kind, "rich"])
        .env("KUBE_EDITOR", editor);
    command.run().await.unwrap()
}

async fn read(namespace: &Namespace, version: &str) -> Value {
    let client = Plane::newest().await.client().await;
    let target = Target {
        namespace: namespace.name(),
        version,
    };
    list(&client, &target)
        .await
        .unwrap()
        .remove("rich")
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_the_columns_of_each_version() {
    let namespace = Plane::newest()
        .await
        .testbed
        .namespace("get")
        .await
        .unwrap();
    kubectl(&namespace, &["apply", "-f", "-"], RICH)
        .await
        .success()
        .unwrap();
    let shown = kubectl(&namespace, &["get", "llsd"], "")
        .await
        .success()
        .unwrap();
    let header: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "PHASE", "PROVIDERS", "AVAILABLE", "AGE"]);
    let wide = kubectl(&namespace, &["get", "llsd", "-o", "wide"], "")
        .await
        .success()
        .unwrap();
    for column in ["DISTRIBUTION", "CONFIG", "SCHEMA", "PLUGIN"] {
        assert!(wide.lines().next().unwrap().contains(column), "{wide}");
    }
    let old = kubectl(&namespace, &["get", OLD], "")
        .await
        .success()
        .unwrap();
    assert!(
        old.lines().next().unwrap().contains("OPERATOR VERSION"),
        "{old}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_fields_mean_in_each_version() {
    let namespace = Plane::newest()
        .await
        .testbed
        .namespace("explain")
        .await
        .unwrap();
    for (version, field, word) in [
        ("v1alpha2", "llsd.spec.networking", "expose"),
        ("v1alpha2", "llsd.spec.storage.sql", "connectionString"),
        ("v1alpha1", "llsd.spec.server.containerSpec", "port"),
    ] {
        let version = format!("--api-version=llamastack.io/{version}");
        let said = kubectl(&namespace, &["explain", field, &version], "")
            .await
            .success()
            .unwrap();
        assert!(
            said.contains("DESCRIPTION") && said.contains(word),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_through_the_old_version_keeps_what_only_the_new_one_can_say() {
    let namespace = Plane::newest()
        .await
        .testbed
        .namespace("edit")
        .await
        .unwrap();
    let applied = kubectl(&namespace, &["apply", "-f", "-"], RICH).await;
    assert!(
        applied.stderr.contains("has no Secret \"vllm-creds\" yet"),
        "{}",
        applied.stderr
    );
    applied.success().unwrap();
    let before = read(&namespace, "v1alpha2").await;

    edit(&namespace, OLD, "replicas: 1", "replicas: 3")
        .await
        .success()
        .unwrap();
    let after = read(&namespace, "v1alpha2").await;
    let mut expected = before["spec"].clone();
    expected["workload"]["replicas"] = 3.into();
    assert_eq!(after["spec"], expected);
    assert_eq!(read(&namespace, "v1alpha1").await["spec"]["replicas"], 3);

    edit(&namespace, NEW, "port: 8321", "port: 8400")
        .await
        .success()
        .unwrap();
    let old = read(&namespace, "v1alpha1").await;
    assert_eq!(old["spec"]["server"]["containerSpec"]["port"], 8400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_contradicts_the_new_version_wins_and_says_so() {
    let namespace = Plane::newest()
        .await
        .testbed
        .namespace("conflict")
        .await
        .unwrap();
    kubectl(&namespace, &["apply", "-f", "-"], RICH)
        .await
        .success()
        .unwrap();
    let edited = edit(&namespace, OLD, "exposeRoute: true", "exposeRoute: false").await;
    assert!(edited.stderr.contains("Warning: "), "{}", edited.stderr);
    assert!(
        edited.stderr.contains("llama.example.com"),
        "{}",
        edited.stderr
    );
    edited.success().unwrap();
    let after = read(&namespace, "v1alpha2").await;
    assert_eq!(after["spec"]["networking"]["expose"], false);
    let kept = &after["metadata"]["annotations"]["llamastack.io/conversion-conflicts"];
    assert!(
        kept.as_str().unwrap().contains("llama.example.com"),
        "{kept}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_v1alpha1_resource_is_told_in_v1alpha1_words() {
    let namespace = Plane::newest()
        .await
        .testbed
        .namespace("old-words")
        .await
        .unwrap();
    let bad = "
apiVersion: llamastack.io/v1alpha1
kind: LlamaStackDistribution
metadata: {name: bad}
spec: {server: {distribution: {name: startr}, containerSpec: {env: [{name: 'A=B', value: c}]}}}
";
    let said = kubectl(&namespace, &["apply", "-f", "-"], bad)
        .await
        .failure()
        .unwrap();
    assert!(
        said.contains("spec.server.containerSpec.env[0].name: "),
        "{said}"
    );
}

//! kubectl get, explain, apply and edit, in both versions.

use llsd_testbed::{Finished, Namespace};
use serde_json::Value;

use crate::test_cluster::{Target, TestCluster, list};

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

async fn create_namespace(prefix: &str) -> Namespace {
    let testbed = &TestCluster::newest().await.testbed;
    testbed.namespace(prefix).await.unwrap()
}

async fn kubectl(namespace: &Namespace, arguments: &[&str], input: &str) -> Finished {
    let kubectl = TestCluster::newest()
        .await
        .testbed
        .kubectl("admin")
        .unwrap();
    let command = kubectl
        .namespace(namespace.name())
        .args(arguments)
        .input(input);
    command.run().await.unwrap()
}

/// Runs `kubectl edit` with an editor that replaces a string.
async fn edit(namespace: &Namespace, kind: &str, from: &str, to: &str) -> Finished {
    let kubectl = TestCluster::newest()
        .await
        .testbed
        .kubectl("admin")
        .unwrap();
    let editor = format!("sed -i 's/{from}/{to}/'");
    let command = kubectl
        .namespace(namespace.name())
        .args(["edit", kind, "rich"])
        .env("KUBE_EDITOR", editor);
    command.run().await.unwrap()
}

async fn read(namespace: &Namespace, version: &str) -> Value {
    let client = TestCluster::newest().await.client().await;
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
async fn kubectl_get_shows_the_columns_of_each_version() {
    let namespace = create_namespace("get").await;
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
async fn kubectl_explain_describes_the_fields_of_each_version() {
    let namespace = create_namespace("explain").await;
    for (version, field, expected) in [
        ("v1alpha2", "llsd.spec.networking", "expose"),
        ("v1alpha2", "llsd.spec.storage.sql", "connectionString"),
        ("v1alpha1", "llsd.spec.server.containerSpec", "port"),
    ] {
        let version = format!("--api-version=llamastack.io/{version}");
        let shown = kubectl(&namespace, &["explain", field, &version], "")
            .await
            .success()
            .unwrap();
        assert!(
            shown.contains("DESCRIPTION") && shown.contains(expected),
            "{shown}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v1alpha1_edit_keeps_fields_that_only_v1alpha2_has() {
    let namespace = create_namespace("edit").await;
    let applied = kubectl(&namespace, &["apply", "-f", "-"], RICH).await;
    assert!(
        applied
            .stderr
            .contains("Secret \"vllm-creds\" not found in namespace "),
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
async fn a_v1alpha1_edit_that_contradicts_v1alpha2_fields_wins_with_a_warning() {
    let namespace = create_namespace("conflict").await;
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
    let conflicts = &after["metadata"]["annotations"]["llamastack.io/conversion-conflicts"];
    assert!(
        conflicts.as_str().unwrap().contains("llama.example.com"),
        "{conflicts}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_v1alpha1_resource_is_rejected_with_v1alpha1_field_names() {
    let namespace = create_namespace("field-names").await;
    let invalid = "
apiVersion: llamastack.io/v1alpha1
kind: LlamaStackDistribution
metadata: {name: invalid}
spec: {server: {distribution: {name: startr}, containerSpec: {env: [{name: 'A=B', value: c}]}}}
";
    let error = kubectl(&namespace, &["apply", "-f", "-"], invalid)
        .await
        .failure()
        .unwrap();
    assert!(
        error.contains("spec.server.containerSpec.env[0].name: "),
        "{error}"
    );
}

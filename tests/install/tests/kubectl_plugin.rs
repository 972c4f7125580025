//! `kubectl llsd` on a real cluster: its output, and that it changes nothing.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::os::unix::fs::symlink;
use std::path::Path;

use llsd_install::{Cluster, checkout, program};
use llsd_testbed::{Finished, Invocation, Registry, RegistryOptions, Release, Testbed};
use serde_json::{Value, json};
use tempfile::TempDir;

const READY: &str = "--for=jsonpath={.status.phase}=Ready";

async fn kubectl_llsd(cluster: &Cluster, bin: &Path, arguments: &[&str]) -> Finished {
    let kubectl = cluster.kubectl_with(bin).unwrap().arg("llsd");
    kubectl.args(arguments).run().await.unwrap()
}

/// A folder for PATH with llsd as a kubectl plugin.
fn plugin_folder() -> TempDir {
    let bin = tempfile::tempdir().unwrap();
    let name = bin.path().join("kubectl-llsd");
    symlink(program("LLSD_BIN").unwrap(), name).unwrap();
    bin
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_and_why_show_the_current_and_the_new_state_and_change_nothing() {
    let bin = plugin_folder();
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let cluster = Cluster::start_on(testbed, "").await.unwrap();
    let sample = checkout().join("samples/minimal.yaml");
    let file = sample.to_str().unwrap();

    let new = kubectl_llsd(&cluster, bin.path(), &["preview", "-f", file]).await;
    assert_eq!(new.code, Some(1), "{}", new.stderr);
    assert!(
        new.stdout.contains("Deployment minimal: would be created"),
        "{}",
        new.stdout
    );
    let llsds = cluster.run(&["get", "llsd"]).await.unwrap();
    assert_eq!(llsds, "", "preview must not store anything");

    cluster.run(&["apply", "--filename", file]).await.unwrap();
    cluster
        .run(&["wait", READY, "llsd/minimal", "--timeout=120s"])
        .await
        .unwrap();
    let version = [
        "get",
        "deployment",
        "minimal",
        "--output=jsonpath={.metadata.resourceVersion}",
    ];
    let before = cluster.run(&version).await.unwrap();
    let unchanged = kubectl_llsd(&cluster, bin.path(), &["preview", "minimal"]).await;
    assert_eq!(
        (unchanged.code, unchanged.stdout.as_str()),
        (Some(0), ""),
        "{}",
        unchanged.stderr
    );
    assert!(
        unchanged.stderr.contains("objects would change"),
        "{}",
        unchanged.stderr
    );

    let edited = std::fs::read_to_string(&sample)
        .unwrap()
        .replace("llama3.2-8b", "another-model");
    let edited_file = bin.path().join("edited.yaml");
    std::fs::write(&edited_file, edited).unwrap();
    let arguments = ["preview", "-f", edited_file.to_str().unwrap()];
    let changed = kubectl_llsd(&cluster, bin.path(), &arguments).await;
    assert_eq!(changed.code, Some(1), "{}", changed.stderr);
    for expected in [
        "ConfigMap minimal-config-",
        "would be created",
        "another-model",
        "Deployment minimal: would change",
    ] {
        assert!(
            changed.stdout.contains(expected),
            "{expected}: {}",
            changed.stdout
        );
    }
    assert_eq!(cluster.run(&version).await.unwrap(), before);

    let why = kubectl_llsd(&cluster, bin.path(), &["why", "minimal"])
        .await
        .success()
        .unwrap();
    for expected in [
        "default/minimal Ready",
        "llama-stack/0.7",
        "ConfigGenerated",
        "+      base_url: http://vllm:8000/v1",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }

    // What the operator asked its plugins can be repeated elsewhere.
    let recording = bin.path().join("recording");
    let recording = recording.to_str().unwrap();
    let requests = ["why", "minimal", "--requests", recording];
    let requests = kubectl_llsd(&cluster, bin.path(), &requests).await;
    assert!(
        !requests.stderr.contains("not the one in use"),
        "{}",
        requests.stderr
    );
    requests.success().unwrap();
    let replay = ["plugin", "replay", recording];
    let replay = kubectl_llsd(&cluster, bin.path(), &replay).await;
    let replay = replay.success().unwrap();
    let output = "--output=jsonpath={.status.configGeneration.outputDigest}";
    let output = cluster.run(&["get", "llsd", "minimal", output]).await;
    let output = output.unwrap();
    assert!(output.starts_with("sha256:"), "{output}");
    assert!(
        replay.contains(&format!("the file is {output}")),
        "{replay}"
    );

    let missing_secret =
        r#"{"spec": {"providers": {"inference": {"apiKey": {"name": "absent", "key": "k"}}}}}"#;
    cluster
        .run(&[
            "patch",
            "llsd",
            "minimal",
            "--type=merge",
            "--patch",
            missing_secret,
        ])
        .await
        .unwrap();
    let unresolved = "--for=condition=SecretsResolved=False";
    cluster
        .run(&["wait", unresolved, "llsd/minimal", "--timeout=60s"])
        .await
        .unwrap();
    let why = kubectl_llsd(&cluster, bin.path(), &["why", "minimal"])
        .await
        .success()
        .unwrap();
    assert!(why.contains("Secret not found: absent"), "{why}");

    let unknown = kubectl_llsd(&cluster, bin.path(), &["why", "unknown"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.contains("has no LlamaStackDistribution"),
        "{}",
        unknown.stderr
    );
}

/// Pushes an adapter to a registry, and returns its reference.
async fn push_adapter(registry: &Registry) -> String {
    let reference = format!("{}/acme/adapter:1", registry.host());
    let component = program("LLSD_PLUGINS")
        .unwrap()
        .join("example-adapter.wasm");
    let push = Invocation::new(&program("LLSD_BIN").unwrap())
        .args(["plugin", "push", &reference])
        .arg(component)
        .args(["--plain-http", registry.host()]);
    push.run().await.unwrap().success().unwrap();
    reference
}

/// Adds a custom distribution: its entry in the operator's ConfigMap, its base configuration, and the adapter
/// for its dialect.
async fn add_distribution(cluster: &Cluster, plugin: &str) {
    let recorded = checkout().join("plugins/example-adapter/tests/golden/minimal/request.json");
    let recorded = std::fs::read_to_string(recorded).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    let entry = "acme: {image: 'acme.example/stack:3', schema: acme/1.0, baseConfig: {configMapName: acme-base}}";
    let map = |name: &str, key: &str, text: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name },
            "data": { key: text },
        })
    };
    // JSON is valid YAML.
    let base = recorded["request"]["base"].to_string();
    let objects = [
        map("acme-base", "config.yaml", &base),
        map("llama-stack-operator-config", "distributions", entry),
        json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": { "name": "acme" },
            "spec": { "reference": plugin },
        }),
    ];
    for object in &objects {
        cluster.create(object).await.unwrap();
    }
    let ready = [
        "wait",
        "--for=condition=Ready",
        "schemaplugin/acme",
        "--timeout=60s",
    ];
    cluster.run(&ready).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_and_why_use_the_plugins_and_settings_of_the_operator() {
    let bin = plugin_folder();
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let cluster = Cluster::start(&registry).await.unwrap();
    let plugin = push_adapter(&registry).await;
    add_distribution(&cluster, &plugin).await;
    let resource = json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": { "name": "custom" },
        "spec": {
            "distribution": { "name": "acme" },
            "providers": { "inference": { "provider": "vllm", "endpoint": "http://vllm:8000" } },
        },
    });
    let file = bin.path().join("custom.yaml");
    std::fs::write(&file, resource.to_string()).unwrap();
    let file = file.to_str().unwrap();

    let new = kubectl_llsd(&cluster, bin.path(), &["preview", "-f", file]).await;
    assert_eq!((new.code, new.stderr.as_str()), (Some(1), ""));
    assert!(
        new.stdout.contains("image: acme.example/stack:3"),
        "{}",
        new.stdout
    );

    cluster.run(&["apply", "--filename", file]).await.unwrap();
    let ready = ["wait", READY, "llsd/custom", "--timeout=120s"];
    cluster.run(&ready).await.unwrap();
    let unchanged = kubectl_llsd(&cluster, bin.path(), &["preview", "custom"]).await;
    assert_eq!(
        (unchanged.code, unchanged.stdout.as_str()),
        (Some(0), ""),
        "{}",
        unchanged.stderr
    );
    let why = kubectl_llsd(&cluster, bin.path(), &["why", "custom"]).await;
    let why = why.success().unwrap();
    for expected in ["acme/1.0", "+      base_url: http://vllm:8000/v1"] {
        assert!(why.contains(expected), "{expected}: {why}");
    }

    // With the wrong operator namespace, the output names what is missing, and why.
    let arguments = ["why", "custom", "--operator-namespace", "kube-public"];
    let output = kubectl_llsd(&cluster, bin.path(), &arguments).await;
    assert!(
        output.stderr.contains("SchemaPlugin \"acme\"")
            && output.stderr.contains("no stored component"),
        "{}",
        output.stderr
    );
    assert!(
        output.stdout.contains("no distribution is called \"acme\""),
        "{}",
        output.stdout
    );
}

//! `llsd convert` from and to the resource of ogx-k8s-operator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SERVER: &str = "\
apiVersion: ogx.io/v1beta1
kind: OGXServer
metadata: {name: rag, namespace: ml}
spec:
  distribution: {name: starter}
  monitoring: {metricsPort: 9999}
  providers:
    inference:
      remote:
        vllm:
        - {endpoint: 'http://vllm:8000/v1', apiToken: {name: vllm, key: token}, maxTokens: 4096}
  resources:
    models:
    - {name: llama-3, contextLength: 8192}
";

fn llsd(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn an_ogx_server_is_converted_generated_and_converted_back() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("server.yaml", SERVER);
    let ours = llsd(&["convert", "-f", "server.yaml"], folder.path());
    assert!(ours.status.success(), "{}", text(&ours.stderr));
    assert!(
        text(&ours.stderr).contains("spec.monitoring"),
        "{}",
        text(&ours.stderr)
    );
    write("ours.yaml", &text(&ours.stdout));
    let converted: Value = serde_saphyr::from_str(&text(&ours.stdout)).unwrap();
    assert_eq!(converted["kind"], "LlamaStackDistribution");
    assert_eq!(
        converted["spec"]["providers"]["inference"][0]["id"],
        "remote-vllm"
    );

    // The configuration of the published image, as its labels have it.
    let base =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../render/distributions/ogx-starter.yaml");
    let base = base.to_str().unwrap();
    let rendered = llsd(
        &["render", "-f", "ours.yaml", "--base-config", base],
        folder.path(),
    );
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    let config = text(&rendered.stdout);
    for part in [
        "provider_id: remote-vllm",
        "base_url: http://vllm:8000/v1",
        "model_id: llama-3",
    ] {
        assert!(config.contains(part), "{part}: {config}");
    }

    let back = llsd(
        &["convert", "-f", "ours.yaml", "--to", "ogxserver"],
        folder.path(),
    );
    assert!(back.status.success(), "{}", text(&back.stderr));
    assert_eq!(text(&back.stderr), "", "nothing is lost");
    let back: Value = serde_saphyr::from_str(&text(&back.stdout)).unwrap();
    let original: Value = serde_saphyr::from_str(SERVER).unwrap();
    assert_eq!(back, original);
}

#[test]
fn what_the_other_operator_cannot_say_is_reported_by_its_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = llsd(
        &["convert", "-f", "samples/full.yaml", "--to", "ogxserver"],
        &root,
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let warnings = text(&output.stderr);
    for field in [
        "spec.providers.safety",
        "spec.resources.tools",
        "spec.resources.shields",
        "spec.disabled[0]",
    ] {
        assert!(warnings.contains(field), "{field}: {warnings}");
    }
}

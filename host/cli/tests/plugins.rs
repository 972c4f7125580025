//! The `llsd plugin` commands, applied to the components of this repository.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The names of all plugins of this repository.
fn shipped() -> Vec<String> {
    let list = include_str!("../../../plugins/plugins.json");
    let list: Vec<serde_json::Value> = serde_json::from_str(list).unwrap();
    let names = list.iter().map(|plugin| plugin["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

fn llsd(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn component(name: &str) -> String {
    let folder = std::env::var("LLSD_PLUGINS").expect("run the tests through `cargo xtask test`");
    format!("{folder}/{name}.wasm")
}

fn succeed(output: &Output) -> String {
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn shipped_components_have_no_imports_and_at_most_500_kib() {
    for name in shipped() {
        let text = succeed(&llsd(
            &root(),
            &["plugin", "inspect", "--json", &component(&name)],
        ));
        let inspection: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(inspection["imports"], serde_json::json!([]), "{name}");
        assert!(
            inspection["size"].as_u64().unwrap() <= 500 * 1024,
            "{name}: {} bytes",
            inspection["size"]
        );
        assert_eq!(inspection["description"]["name"], name.as_str());
    }
}

#[test]
fn every_shipped_component_passes_the_conformance_suite() {
    for name in shipped() {
        let fixtures = root().join("plugins").join(&name).join("tests/golden");
        let report = succeed(&llsd(
            &root(),
            &[
                "plugin",
                "test",
                &component(&name),
                "--fixtures",
                fixtures.to_str().unwrap(),
            ],
        ));
        assert!(!report.contains("FAIL"), "{report}");
    }
}

#[test]
fn diff_finds_no_difference_to_itself_and_some_to_another_dialect() {
    let corpus = tempfile::tempdir().unwrap();
    std::fs::copy(
        root().join("samples/minimal.yaml"),
        corpus.path().join("minimal.yaml"),
    )
    .unwrap();
    // An API that no release of ogx has, so that the dialect is certain.
    let starter = std::fs::read_to_string(root().join("host/render/distributions/starter.yaml"));
    let base = starter.unwrap().replacen("apis: [", "apis: [scoring, ", 1);
    std::fs::write(corpus.path().join("minimal.base.yaml"), base).unwrap();
    let compare = |a: &str, b: &str, options: &[&str]| {
        let corpus = corpus.path().to_str().unwrap().to_owned();
        let (a, b) = (component(a), component(b));
        let mut arguments = vec!["plugin", "diff", &a, &b, "--corpus", &corpus];
        arguments.extend(options);
        llsd(&root(), &arguments).status.code()
    };
    assert_eq!(compare("llama-stack-0.7", "llama-stack-0.7", &[]), Some(0));
    assert_eq!(compare("llama-stack-0.7", "llama-stack-0.4", &[]), Some(1));
    assert_eq!(
        compare(
            "llama-stack-0.7",
            "llama-stack-0.4",
            &["--expect", "minimal"]
        ),
        Some(0)
    );
}

#[test]
fn bench_compares_fuel_with_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = root().join("plugins/example-pack/tests/golden");
    let pack = component("example-pack");
    let bench = |options: &[&str]| {
        let mut arguments = vec![
            "plugin",
            "bench",
            &pack,
            "--runs",
            "3",
            "--fixtures",
            fixtures.to_str().unwrap(),
        ];
        arguments.extend(options);
        llsd(folder.path(), &arguments)
    };
    succeed(&bench(&["--baseline", "baseline.json"]));
    let again = succeed(&bench(&["--baseline", "baseline.json"]));
    assert!(again.contains("fuel ×1.000"), "{again}");
}

#[test]
fn a_new_plugin_builds_passes_conformance_and_renders() {
    let folder = tempfile::tempdir().unwrap();
    let sdk = root().join("guest-sdk");
    succeed(&llsd(
        folder.path(),
        &[
            "plugin",
            "new",
            "my-dialect",
            "--sdk",
            sdk.to_str().unwrap(),
        ],
    ));
    let crate_folder = folder.path().join("my-dialect");
    // Use the workspace's versions, so that a new release of a dependency cannot fail the test.
    std::fs::copy(root().join("Cargo.lock"), crate_folder.join("Cargo.lock")).unwrap();
    let tests = Command::new("cargo")
        .arg("test")
        .arg("--quiet")
        .current_dir(&crate_folder)
        .output()
        .unwrap();
    succeed(&tests);
    succeed(&llsd(&crate_folder, &["plugin", "build"]));
    succeed(&llsd(
        &crate_folder,
        &["plugin", "test", "target/my-dialect.wasm"],
    ));
    std::fs::write(
        crate_folder.join("base.yaml"),
        "version: 2\ndistro_name: my-dialect\n",
    )
    .unwrap();
    let sample = root().join("samples/minimal.yaml");
    let arguments = [
        "render",
        "-f",
        sample.to_str().unwrap(),
        "--base-config",
        "base.yaml",
        "--plugin",
        "target/my-dialect.wasm",
        "--schema",
        "my-dialect/1.0",
    ];
    let config = succeed(&llsd(&crate_folder, &arguments));
    assert!(config.contains("base_url: http://vllm:8000"), "{config}");
}

#[test]
fn stock_wasmtime_runs_our_components() {
    let wasmtime =
        std::env::var("LLSD_WASMTIME_BIN").expect("run the tests through `cargo xtask test`");
    let run = |options: &[&str], invoke: &str| {
        let output = Command::new(&wasmtime)
            .arg("run")
            .args(options)
            .args(["--invoke", invoke, &component("llama-stack-0.7")])
            .output()
            .unwrap();
        succeed(&output)
    };
    assert!(run(&[], "describe()").contains("llama-stack/0.7"));
    assert!(
        run(&[], "llamastack:config-adapter/identity.describe@1.0.0()").contains("llama-stack/0.7")
    );
    let detect = r#"detect({shape: "llamastack.io/adapter/base/v1", json: "{\"version\":2}"}, {shape: "llamastack.io/adapter/hints/v1", json: "{}"})"#;
    assert!(run(&[], detect).contains("none"));
    let limits = [
        "-W",
        "fuel=200000000,max-memory-size=67108864,trap-on-grow-failure=y,timeout=5s,nan-canonicalization=y,relaxed-simd=n",
    ];
    let expand = r#"expand({shape: "llamastack.io/adapter/expansion-request/v1", json: "{\"schema\":\"llama-stack/0.7\",\"api\":\"inference\",\"path\":\"spec.providers.inference\",\"entry\":{\"id\":\"vllm\",\"provider\":\"vllm\",\"endpoint\":\"http://vllm:8000\"}}"})"#;
    assert!(run(&limits, expand).contains("remote::vllm"));
}

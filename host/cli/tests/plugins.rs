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
fn diff_compares_the_answers_to_recorded_requests() {
    let fixtures = root().join("plugins/ogx/tests/golden");
    let compare = |a: &str, b: &str, options: &[&str]| {
        let (a, b) = (component(a), component(b));
        let fixtures = fixtures.to_str().unwrap();
        let mut arguments = vec!["plugin", "diff", &a, &b, "--fixtures", fixtures];
        arguments.extend(options);
        llsd(&root(), &arguments)
    };
    succeed(&compare("ogx", "ogx", &[]));
    let changed = compare("ogx", "llama-stack-0.7", &["--expect", "describe"]);
    assert_eq!(changed.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&changed.stdout).into_owned();
    assert!(
        printed.contains("describe: differs, as expected"),
        "{printed}"
    );
    assert!(printed.contains("1.0-minimal: differs\n"), "{printed}");
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

/// A program that finds nothing of this checkout: no variable of cargo or of the tests is set.
fn outside(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear();
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // The pinned Node.js comes first, for npm and for the programs that it installs.
    let node = std::env::var("LLSD_NODE_BIN").unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let node = Path::new(&node).parent().map(Path::to_owned);
    let folders = node.into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap());
    // Registries and certificates of the machine.
    let settings = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy().to_lowercase();
        [
            "cargo_registries",
            "cargo_source",
            "cargo_net",
            "cargo_http",
            "npm_config",
            "ssl_cert",
            "node_extra",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
            || name.ends_with("_proxy")
    });
    command.envs(settings);
    command
}

/// Creates a plugin in an empty directory, and returns its directory.
fn scaffold(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let mut new = outside(env!("CARGO_BIN_EXE_llsd"), folder);
    succeed(
        &new.args(["plugin", "new", name])
            .args(options)
            .output()
            .unwrap(),
    );
    folder.join(name)
}

/// Builds a plugin, and runs the conformance suite with its fixtures.
fn build_and_test(folder: &Path, name: &str, compiler: Option<&str>) {
    let component = format!("target/{name}.wasm");
    let mut build = outside(env!("CARGO_BIN_EXE_llsd"), folder);
    build.args(["plugin", "build"]);
    if let Some(compiler) = compiler {
        build.env("CC", compiler);
    }
    succeed(&build.output().unwrap());
    let inspection = succeed(&llsd(folder, &["plugin", "inspect", "--json", &component]));
    let inspection: serde_json::Value = serde_json::from_str(&inspection).unwrap();
    assert_eq!(inspection["imports"], serde_json::json!([]), "{name}");
    let test = ["plugin", "test", &component, "--fixtures", "tests/golden"];
    let report = succeed(&llsd(folder, &test));
    assert!(!report.contains("FAIL"), "{report}");
}

// Adapters in Rust and JavaScript go the whole way of a vendor in `tests/e2e/tests/plugins/vendor.rs`.

#[test]
fn a_new_rust_pack_builds_without_the_checkout_and_passes_conformance() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = scaffold(folder.path(), "my-pack", &["--kind", "pack"]);
    // Use the workspace's versions, so that a new release of a dependency cannot fail the test.
    std::fs::copy(root().join("Cargo.lock"), plugin.join("Cargo.lock")).unwrap();
    let mut tests = outside("cargo", &plugin);
    succeed(&tests.args(["test", "--quiet"]).output().unwrap());
    build_and_test(&plugin, "my-pack", None);
}

#[test]
fn the_sdk_of_a_plugin_is_replaced_without_touching_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = scaffold(folder.path(), "acme", &[]);
    let (library, sdk) = (plugin.join("src/lib.rs"), plugin.join("sdk/src/lib.rs"));
    let original = std::fs::read(&sdk).unwrap();
    std::fs::write(&library, "// mine").unwrap();
    std::fs::write(&sdk, "// old").unwrap();
    succeed(&llsd(&plugin, &["plugin", "sdk"]));
    assert_eq!(std::fs::read(&sdk).unwrap(), original);
    assert_eq!(std::fs::read_to_string(&library).unwrap(), "// mine");
}

#[test]
fn the_packaged_sdk_builds_for_webassembly_from_the_package_alone() {
    let folder = tempfile::tempdir().unwrap();
    let package = Command::new("cargo")
        .args([
            "package",
            "--package",
            "llsd-adapter-sdk",
            "--no-verify",
            "--allow-dirty",
            "--quiet",
        ])
        .arg("--target-dir")
        .arg(folder.path().join("target"))
        .current_dir(root())
        .output()
        .unwrap();
    succeed(&package);
    let name = format!("llsd-adapter-sdk-{}", env!("CARGO_PKG_VERSION"));
    let archive = folder.path().join(format!("target/package/{name}.crate"));
    let unpacked = Command::new("tar")
        .args(["-xzf", archive.to_str().unwrap()])
        .current_dir(folder.path())
        .output()
        .unwrap();
    succeed(&unpacked);
    let package = folder.path().join(name);
    std::fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    for world in ["schema-adapter", "provider-pack"] {
        let mut build = outside("cargo", &package);
        build.args([
            "build",
            "--quiet",
            "--target",
            "wasm32-unknown-unknown",
            "--features",
            world,
        ]);
        succeed(&build.output().unwrap());
    }
}

#[test]
fn a_new_javascript_pack_passes_conformance() {
    std::env::var("LLSD_NODE_BIN").expect("run the tests through `cargo xtask test`");
    let folder = tempfile::tempdir().unwrap();
    let plugin = scaffold(
        folder.path(),
        "my-pack",
        &["--lang", "js", "--kind", "pack"],
    );
    let install = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
    succeed(&outside("npm", &plugin).args(install).output().unwrap());
    succeed(&outside("npm", &plugin).arg("test").output().unwrap());
    build_and_test(&plugin, "my-pack", None);
}

#[test]
fn a_new_c_plugin_passes_conformance() {
    let zig = std::env::var("LLSD_ZIG_BIN").expect("run the tests through `cargo xtask test`");
    let folder = tempfile::tempdir().unwrap();
    let plugin = scaffold(folder.path(), "my-dialect", &["--lang", "c"]);
    build_and_test(&plugin, "my-dialect", Some(&format!("{zig} cc")));
}

#[test]
fn components_of_the_first_contract_keep_passing_conformance() {
    for kind in ["adapter", "pack"] {
        let file = format!("host/plugin/tests/fixtures/contract-1.0.0-{kind}.wasm");
        let report = succeed(&llsd(&root(), &["plugin", "test", &file]));
        assert!(!report.contains("FAIL"), "{report}");
    }
}

#[test]
fn a_field_that_is_newer_than_the_contract_of_an_adapter_is_refused_by_its_path() {
    let file = "host/plugin/tests/fixtures/contract-1.0.0-adapter.wasm";
    let file = root().join(file).display().to_string();
    let inspected = succeed(&llsd(&root(), &["plugin", "inspect", "--json", &file]));
    let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    let schema = inspected["description"]["schemas"][0]["id"].as_str();
    let folder = tempfile::tempdir().unwrap();
    let render = |tools: serde_json::Value| {
        let resource = serde_json::json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": { "name": "stack" },
            "spec": {
                "distribution": { "name": "starter" },
                "providers": { "inference": { "provider": "vllm", "endpoint": "http://vllm:8000" } },
                "resources": { "tools": tools },
            },
        });
        // JSON is YAML.
        std::fs::write(folder.path().join("stack.yaml"), resource.to_string()).unwrap();
        std::fs::write(folder.path().join("base.yaml"), "version: 2\n").unwrap();
        let plugin = ["--schema", schema.unwrap(), "--plugin", &file];
        let render = ["render", "-f", "stack.yaml", "--base-config", "base.yaml"];
        llsd(folder.path(), &[&render[..], &plugin].concat())
    };
    let config = succeed(&render(serde_json::json!([])));
    assert!(config.contains("http://vllm:8000"), "{config}");
    let endpoint = serde_json::json!([{ "name": "files", "endpoint": "http://mcp:8000/mcp" }]);
    let refused = render(endpoint);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    for expected in ["spec.resources.tools[0].endpoint", "\"tool-endpoints\""] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_recorded_generation_is_replayed_and_a_change_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let sample = root().join("samples/minimal.yaml");
    let render = [
        "render",
        "-f",
        sample.to_str().unwrap(),
        "--requests",
        "recording",
    ];
    let config = succeed(&llsd(folder.path(), &render));
    let recording = folder.path().join("recording");
    assert_eq!(
        std::fs::read_to_string(recording.join("config.yaml"))
            .unwrap()
            .trim(),
        config.trim()
    );
    let replay = || llsd(folder.path(), &["plugin", "replay", "recording"]);
    let report = succeed(&replay());
    assert!(
        report.contains("returned the same bytes with the same fuel"),
        "{report}"
    );

    let receipt = std::fs::read_to_string(recording.join("receipt.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&receipt).unwrap();
    let calls = parsed["calls"].as_array().unwrap();
    let (number, assemble) = calls
        .iter()
        .enumerate()
        .find(|(_, call)| call["call"] == "assemble")
        .unwrap();
    let fuel = assemble["fuel"].as_u64().unwrap();
    let change = |file: &str, from: &str, to: &str, expected: &str| {
        let file = recording.join(file);
        let original = std::fs::read_to_string(&file).unwrap();
        assert!(original.contains(from), "{original}");
        std::fs::write(&file, original.replace(from, to)).unwrap();
        let output = replay();
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            !output.status.success() && printed.contains(expected),
            "{printed}"
        );
        std::fs::write(&file, original).unwrap();
    };
    change("receipt.json", &fuel.to_string(), "7", "fuel instead of 7");
    change(
        "config.yaml",
        "vllm",
        "wllm",
        "config.yaml is not the file of the receipt",
    );
    let case = format!("calls/{:03}-assemble", number + 1);
    change(
        &format!("{case}/request.json"),
        "vllm",
        "wllm",
        "the recorded request was changed",
    );
    change(
        &format!("{case}/answer.json"),
        "vllm",
        "wllm",
        "returned something else than recorded",
    );
    let component = parsed["component"].as_str().unwrap();
    change(
        "receipt.json",
        component,
        "sha256:0",
        "is neither built in nor given",
    );
}

#[test]
fn limits_of_a_file_apply_and_messages_name_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let pack = component("example-pack");
    let describe = |limits: &str| {
        std::fs::write(folder.path().join("limits.yaml"), limits).unwrap();
        let run = [
            "plugin",
            "run",
            &pack,
            "describe",
            "--limits",
            "limits.yaml",
        ];
        llsd(folder.path(), &run)
    };
    succeed(&describe(
        "fuel: 1000000000\nmemory: 64Mi\ncompileMemory: 256Mi\n",
    ));
    for (limits, field) in [
        ("fuel: 10", "spec.limits.fuel"),
        ("memory: 64Ki", "spec.limits.memory"),
        ("output: 10", "spec.limits.output"),
        ("component: 1Ki", "spec.limits.component"),
        ("tableElements: 1", "spec.limits.tableElements"),
    ] {
        let output = describe(limits);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{limits}: {stderr}");
        assert!(
            stderr.contains(&format!("raise {field} of the SchemaPlugin")),
            "{limits}: {stderr}"
        );
    }
    let typo = describe("feul: 10");
    assert!(
        String::from_utf8_lossy(&typo.stderr).contains("feul: no such limit; use one of: fuel")
    );
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

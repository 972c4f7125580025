//! `llsd upgrade plan` over files and folders.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn llsd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The plan as JSON.
fn plan(arguments: &[&str]) -> Value {
    let output = llsd(&[&["upgrade", "plan", "--output", "json"], arguments].concat());
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(&output)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn resource<'p>(plan: &'p Value, name: &str) -> &'p Value {
    let all = plan["resources"].as_array().unwrap();
    all.iter()
        .find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {plan:#}"))
}

#[test]
fn the_progress_of_a_plan_is_shown_on_a_terminal_only() {
    let arguments = ["upgrade", "plan", "-f", "samples", "--to", "ogx/1.0"];
    let command = [&[env!("CARGO_BIN_EXE_llsd")], &arguments[..]]
        .concat()
        .join(" ");
    // `script` runs a command on a terminal, and prints what the terminal shows.
    let terminal = Command::new("script")
        .args(["--quiet", "--command", &command, "/dev/null"])
        .current_dir(root())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&terminal.stdout);
    assert!(shown.contains("planning ["), "{shown}");
    assert!(shown.contains(" left"), "{shown}");

    let piped = llsd(&arguments);
    assert!(!stderr(&piped).contains("planning"), "{}", stderr(&piped));
}

#[test]
fn a_folder_is_planned_with_a_verdict_for_each_resource() {
    let plan = plan(&["-f", "samples", "--to", "ogx/1.0"]);
    let minimal = resource(&plan, "minimal");
    assert_eq!(minimal["verdict"], "ready", "{minimal:#}");
    assert_eq!(minimal["from"], "llama-stack/0.7");
    assert_eq!(
        minimal["moves"],
        serde_json::json!([{"field": "spec.distribution.name", "value": "ogx-starter"}])
    );
    let diff = minimal["diff"].as_str().unwrap();
    assert!(diff.contains("\n-") && diff.contains("\n+"), "{diff}");
    assert_eq!(minimal["releases"]["llama-stack/0.7"], "ready");

    let full = resource(&plan, "full");
    assert_eq!(full["verdict"], "cannot", "{full:#}");
    let lost: Vec<&str> = full["lost"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].as_str().unwrap())
        .collect();
    assert!(
        lost.iter()
            .any(|field| field.starts_with("spec.providers.safety")),
        "{lost:?}"
    );
    assert!(!plan["order"].as_array().unwrap().is_empty());
    let counts = plan["counts"].as_object().unwrap().values();
    let counted: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(
        counted as usize,
        plan["resources"].as_array().unwrap().len()
    );
}

#[test]
fn a_resource_that_is_there_already_is_ready_and_not_edited() {
    let plan = plan(&[
        "-f",
        "samples/minimal.yaml",
        "samples/default.yaml",
        "--to",
        "0.7.3",
    ]);
    assert_eq!(plan["schema"], "llama-stack/0.7");
    for one in plan["resources"].as_array().unwrap() {
        assert_eq!(one["verdict"], "ready", "{one:#}");
        assert_eq!(one["moves"], serde_json::json!([]));
    }
}

#[test]
fn an_image_of_the_author_needs_one_of_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    let text = "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {name: own}\nspec:\n  distribution: {image: \"quay.io/acme/stack:1\"}\n  providers:\n    inference: {provider: vllm, endpoint: \"http://vllm:8000/v1\"}\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let unknown = plan(&["-f", file, "--to", "ogx/1.0"]);
    let own = resource(&unknown, "own");
    assert_eq!(own["verdict"], "needsEdit", "{own:#}");
    assert_eq!(own["edits"][0]["field"], "spec.distribution");
    // With the base configuration of the release and an image, everything is known.
    let base = "host/render/distributions/ogx-starter.yaml";
    let known = plan(&[
        "-f",
        file,
        "--to",
        "quay.io/acme/ogx:1.3.0",
        "--to-base-config",
        base,
    ]);
    let own = resource(&known, "own");
    assert_eq!(own["verdict"], "ready", "{own:#}");
    assert_eq!(own["moves"][0]["value"], "quay.io/acme/ogx:1.3.0");
}

#[test]
fn a_base_of_the_author_must_be_written_for_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    let base =
        std::fs::read_to_string(root().join("host/render/distributions/starter.yaml")).unwrap();
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "base"}, "data": {"config.yaml": base}});
    let text = format!(
        "{map}\n---\napiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: own}}\nspec:\n  distribution: {{name: starter, baseConfig: {{configMapName: base}}}}\n  providers:\n    inference: {{provider: vllm, endpoint: \"http://vllm:8000/v1\"}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let moved = plan(&["-f", file, "--to", "ogx/1.0"]);
    let own = resource(&moved, "own");
    assert_eq!(own["verdict"], "needsEdit", "{own:#}");
    assert_eq!(own["edits"][0]["field"], "spec.distribution.baseConfig");
    let problem = own["edits"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("safety: inline::llama-guard"), "{problem}");
    let stays = plan(&["-f", file, "--to", "llama-stack/0.7"]);
    assert_eq!(resource(&stays, "own")["verdict"], "ready");
}

#[test]
fn write_edits_the_files_and_keeps_their_comments() {
    let folder = tempfile::tempdir().unwrap();
    for sample in ["minimal.yaml", "full.yaml", "v1alpha1/vllm.yaml"] {
        let name = sample.replace('/', "-");
        std::fs::copy(
            root().join("samples").join(sample),
            folder.path().join(name),
        )
        .unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let output = llsd(&["upgrade", "plan", "-f", path, "--to", "ogx/1.0", "--write"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let sample = |name: &str| std::fs::read_to_string(root().join("samples").join(name)).unwrap();
    let moved = |name: &str| sample(name).replace("name: starter", "name: ogx-starter");
    assert_eq!(read("minimal.yaml"), moved("minimal.yaml"));
    assert_eq!(read("v1alpha1-vllm.yaml"), moved("v1alpha1/vllm.yaml"));
    // What cannot move is not touched.
    assert_eq!(read("full.yaml"), sample("full.yaml"));
    let again = plan(&["-f", path, "--to", "ogx/1.0"]);
    assert_eq!(resource(&again, "minimal")["moves"], serde_json::json!([]));
}

#[test]
fn the_page_is_one_file_without_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("plan.html");
    let page_path = page.to_str().unwrap();
    let output = llsd(&[
        "upgrade", "plan", "-f", "samples", "--to", "ogx/1.0", "--html", page_path,
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("can move to ogx/1.0"), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "<h2>Resources and releases</h2>",
        "<th>ogx/1.0</th>",
        "class=\"add\"",
        "class=\"bad\">cannot",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in ["<script", "<link", "src="] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn a_release_that_nobody_serves_is_refused_with_the_choices() {
    let output = llsd(&[
        "upgrade",
        "plan",
        "-f",
        "samples/minimal.yaml",
        "--to",
        "ogx/9.9",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = stderr(&output);
    assert!(
        stderr.contains("--to: \"ogx/9.9\" is not a release"),
        "{stderr}"
    );
    assert!(
        stderr.contains("llama-stack/0.7, ogx/0.8, ogx/1.0"),
        "{stderr}"
    );
}

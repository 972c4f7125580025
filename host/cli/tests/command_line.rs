//! The command line: standard output, standard error and exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Checks a resource with this spec, which must be rejected, and returns standard error.
fn reject(spec: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    let text = format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {{name: bad}}\nspec:\n{spec}"
    );
    std::fs::write(&file, text).unwrap();
    let output = llsd(&["check", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    stderr(&output)
}

#[test]
fn render_prints_the_configuration_to_standard_output() {
    let output = llsd(&["render", "-f", "samples/minimal.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("version: 2\n"), "{text}");
    assert!(text.contains("base_url: http://vllm:8000/v1"), "{text}");
    assert!(text.contains("model_id: llama3.2-8b"), "{text}");
}

#[test]
fn the_diff_shows_only_what_the_resource_changes() {
    let output = llsd(&["render", "-f", "samples/minimal.yaml", "--output", "diff"]);
    let text = stdout(&output);
    assert!(text.contains("+  - model_id: llama3.2-8b"), "{text}");
    assert!(!text.contains('\u{1b}'), "colour without a terminal");
    let changed = text
        .lines()
        .filter(|line| line.starts_with(['+', '-']))
        .count();
    assert!(changed < 30, "{changed} lines changed:\n{text}");
}

#[test]
fn a_resource_without_changes_renders_the_base_unchanged() {
    let output = llsd(&["render", "-f", "samples/default.yaml", "--output", "diff"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).trim(), "");
}

#[test]
fn rendering_is_deterministic() {
    let first = llsd(&["render", "-f", "samples/full.yaml"]).stdout;
    assert!(!first.is_empty());
    for _ in 0..5 {
        assert_eq!(llsd(&["render", "-f", "samples/full.yaml"]).stdout, first);
    }
}

#[test]
fn a_resource_with_five_errors_gets_five_diagnostics() {
    let stderr = reject(
        "  distribution: {name: starter, image: registry.example.com/x:1}\n  providers:\n    inference:\n    - {provider: vllm}\n    - {id: b, provider: vllm, apikey: {name: s, key: k}}\n  networking: {port: 70000}\n  workload: {workers: 0}\n",
    );
    assert!(stderr.contains("rejected, 5 problems"), "{stderr}");
    assert_eq!(stderr.matches("fix: ").count(), 5, "{stderr}");
    assert!(
        stderr.contains("spec.providers.inference[0].id"),
        "{stderr}"
    );
}

#[test]
fn an_unknown_provider_is_rejected_with_a_suggestion() {
    let stderr = reject(
        "  distribution: {name: starter}\n  providers: {inference: {provider: vlm, endpoint: 'http://vllm:8000'}}\n",
    );
    assert!(
        stderr.contains("spec.providers.inference.provider"),
        "{stderr}"
    );
    assert!(stderr.contains("vllm"), "{stderr}");
}

#[test]
fn an_unknown_distribution_is_rejected_with_a_suggestion() {
    let stderr = reject("  distribution: {name: startr}\n  disabled: [eval]\n");
    assert!(
        stderr.contains("no distribution is called \"startr\""),
        "{stderr}"
    );
    assert!(stderr.contains("did you mean \"starter\"?"), "{stderr}");
}

#[test]
fn check_prints_json_with_stable_keys() {
    let output = llsd(&[
        "check",
        "--output",
        "json",
        "-f",
        "samples/minimal.yaml",
        "samples/redis.yaml",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports[0]["accepted"], true);
    assert_eq!(reports[0]["name"], "minimal");
    assert_eq!(reports[1]["name"], "redis");
}

#[test]
fn a_missing_file_exits_with_2() {
    let output = llsd(&["render", "-f", "no-such-file.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("failed to read no-such-file.yaml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_sample_is_accepted_with_the_built_in_bases() {
    for sample in std::fs::read_dir(root().join("samples")).unwrap() {
        let path = sample.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let mut arguments = vec!["check", "-f", path.to_str().unwrap()];
            // The base of ogx is in its image, which is not read here.
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("name: ogx-starter") {
                arguments.extend([
                    "--base-config",
                    "host/render/distributions/ogx-starter.yaml",
                ]);
            }
            let output = llsd(&arguments);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{}: {}",
                path.display(),
                stderr(&output)
            );
        }
    }
}

#[test]
fn a_v1alpha1_resource_is_converted_and_its_variables_are_lifted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.yaml");
    let old = "apiVersion: llamastack.io/v1alpha1\nkind: LlamaStackDistribution\nmetadata: {name: my-llsd}\nspec:\n  replicas: 1\n  server:\n    distribution: {name: starter}\n    containerSpec:\n      env:\n      - {name: OLLAMA_INFERENCE_MODEL, value: 'llama3.2:1b'}\n      - {name: OLLAMA_URL, value: 'http://ollama:11434'}\n";
    std::fs::write(&file, old).unwrap();
    let file = file.to_str().unwrap();
    let output = llsd(&["convert", "-f", file, "--lift-env"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let new = folder.path().join("new.yaml");
    std::fs::write(&new, &output.stdout).unwrap();
    let text = stdout(&output);
    assert!(text.contains("llamastack.io/v1alpha2"), "{text}");
    assert!(text.contains("endpoint: http://ollama:11434"), "{text}");
    // The result renders, and a conversion without --lift-env can be reversed.
    let rendered = llsd(&["render", "-f", new.to_str().unwrap()]);
    assert_eq!(rendered.status.code(), Some(0), "{}", stderr(&rendered));
    assert!(stdout(&rendered).contains("model_id: llama3.2:1b"));
    let there = llsd(&["convert", "-f", file]);
    std::fs::write(&new, &there.stdout).unwrap();
    let back = llsd(&["convert", "-f", new.to_str().unwrap(), "--to", "v1alpha1"]);
    assert!(
        stdout(&back).contains("OLLAMA_INFERENCE_MODEL"),
        "{}",
        stdout(&back)
    );
}

#[test]
fn completions_and_manual_pages_contain_every_command() {
    let commands = ["operator", "preview", "why", "doctor", "migrate"];
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&llsd(&["completions", shell]));
        for command in commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let written = llsd(&["man", folder.path().to_str().unwrap()]);
    assert!(written.status.success(), "{}", stderr(&written));
    for command in commands {
        let page = folder.path().join(format!("llsd-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{command}: {page}");
    }
    let nested = folder.path().join("llsd-plugin-push.1");
    assert!(nested.exists());
}

#[test]
fn the_objects_of_a_resource_are_printed_without_a_cluster() {
    let output = llsd(&["render", "-f", "samples/full.yaml", "--output", "objects"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for expected in [
        "kind: ConfigMap",
        "kind: Deployment",
        "kind: Service",
        "kind: PersistentVolumeClaim",
        "kind: NetworkPolicy",
        "kind: HorizontalPodAutoscaler",
        "kind: Ingress",
        "name: full-service",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    for absent in ["ownerReferences", "desired-digest"] {
        assert!(!text.contains(absent), "{absent}");
    }
}

#[test]
fn config_maps_that_a_resource_names_are_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let resource =
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {name: a}\n";
    let generated = "spec: {distribution: {image: quay.io/acme/stack:1, schema: llama-stack/0.7, baseConfig: {configMapName: base}}, providers: {inference: {provider: vllm, endpoint: 'http://vllm:8000'}}}\n";
    std::fs::write(path("generated.yaml"), format!("{resource}{generated}")).unwrap();
    let base = "version: 2\\napis: [inference]\\nproviders: {inference: []}\\n";
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: base}}\ndata: {{config.yaml: \"{base}\"}}\n"
    );
    std::fs::write(path("maps.yaml"), map).unwrap();
    let file = path("generated.yaml");
    let output = llsd(&["render", "-f", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("pass the ConfigMap with --config-map"),
        "{}",
        stderr(&output)
    );
    let output = llsd(&["render", "-f", &file, "--config-map", &path("maps.yaml")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("provider_id: vllm"),
        "{}",
        stdout(&output)
    );
    let output = llsd(&[
        "render",
        "-f",
        &file,
        "--config-map",
        &path("maps.yaml"),
        "-o",
        "objects",
    ]);
    assert!(
        stdout(&output).contains("image: quay.io/acme/stack:1"),
        "{}",
        stdout(&output)
    );

    let overriding = "spec: {distribution: {name: starter}, overrideConfig: {configMapName: base}, networking: {tls: {secretName: t}}}\n";
    std::fs::write(path("override.yaml"), format!("{resource}{overriding}")).unwrap();
    let output = llsd(&[
        "check",
        "-f",
        &path("override.yaml"),
        "--config-map",
        &path("maps.yaml"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("spec.networking.tls.secretName"),
        "{}",
        stderr(&output)
    );
}

//! The command line as its users meet it: what goes to which stream, and how it ends.

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

fn refuse(spec: &str) -> String {
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
fn a_sample_becomes_a_configuration_on_standard_output() {
    let output = llsd(&["render", "-f", "samples/minimal.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("version: 2\n"), "{text}");
    assert!(text.contains("base_url: http://vllm:8000/v1"), "{text}");
    assert!(text.contains("model_id: llama3.2-8b"), "{text}");
}

#[test]
fn the_difference_shows_only_what_the_resource_changed() {
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
fn a_resource_that_asks_for_nothing_prints_the_base_unchanged() {
    let output = llsd(&["render", "-f", "samples/default.yaml", "--output", "diff"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).trim(), "");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let first = llsd(&["render", "-f", "samples/full.yaml"]).stdout;
    assert!(!first.is_empty());
    for _ in 0..5 {
        assert_eq!(llsd(&["render", "-f", "samples/full.yaml"]).stdout, first);
    }
}

#[test]
fn a_resource_wrong_in_five_places_gets_five_rejections() {
    let talk = refuse(
        "  distribution: {name: starter, image: registry.example.com/x:1}\n  providers:\n    inference:\n    - {provider: vllm}\n    - {id: b, provider: vllm, apikey: {name: s, key: k}}\n  networking: {port: 70000}\n  workload: {workers: 0}\n",
    );
    assert!(talk.contains("refused, 5 problems"), "{talk}");
    assert_eq!(talk.matches("fix: ").count(), 5, "{talk}");
    assert!(talk.contains("spec.providers.inference[0].id"), "{talk}");
}

#[test]
fn an_unknown_provider_is_refused_with_near_names() {
    let talk = refuse(
        "  distribution: {name: starter}\n  providers: {inference: {provider: vlm, endpoint: 'http://vllm:8000'}}\n",
    );
    assert!(talk.contains("spec.providers.inference.provider"), "{talk}");
    assert!(talk.contains("vllm"), "{talk}");
}

#[test]
fn an_unknown_distribution_is_refused_with_the_choices() {
    let talk = refuse("  distribution: {name: startr}\n  disabled: [eval]\n");
    assert!(
        talk.contains("no distribution is called \"startr\""),
        "{talk}"
    );
    assert!(talk.contains("did you mean \"starter\"?"), "{talk}");
}

#[test]
fn findings_are_stable_json_for_machines() {
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
fn what_cannot_run_exits_with_two() {
    let output = llsd(&["render", "-f", "no-such-file.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("could not read no-such-file.yaml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_sample_is_accepted_on_the_bases_inside_the_binary() {
    for sample in std::fs::read_dir(root().join("samples")).unwrap() {
        let path = sample.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let output = llsd(&["check", "-f", path.to_str().unwrap()]);
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
fn an_old_resource_becomes_a_declarative_one() {
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
    // The result is a resource that renders, and goes back to what it was.
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
fn completions_and_manual_pages_know_every_command() {
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

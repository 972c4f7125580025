//! The content of the container image, and the environment in which the binary must run.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::process::Command;

use llsd_install::{checkout, program};

/// Runs `llsd` as in the pod: with a read-only root, no home directory and no environment.
fn run_sandboxed(arguments: &str) -> std::process::Output {
    let script = format!("mount -o remount,bind,ro / && exec \"$0\" {arguments}");
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(program("LLSD_BIN").unwrap())
        .current_dir(checkout());
    let path = std::env::var_os("PATH").unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("HOME", "/dev/null/home");
    command.output().unwrap()
}

#[test]
fn the_binary_runs_with_a_read_only_root_and_without_a_home_directory() {
    let output = run_sandboxed("render -f samples/minimal.yaml");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    let file = String::from_utf8_lossy(&output.stdout);
    assert!(file.contains("http://vllm:8000/v1"), "{file}");
}

#[test]
fn the_operator_reports_a_missing_kubeconfig_instead_of_crashing() {
    let output = run_sandboxed("operator");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("failed to load a cluster configuration"),
        "{error}"
    );
}

#[test]
fn the_image_holds_three_files_and_runs_as_an_unprivileged_user() {
    let text = std::fs::read_to_string(checkout().join("Dockerfile")).unwrap();
    let (_, last_stage) = text.rsplit_once("\nFROM ").unwrap();
    let mut lines = last_stage.lines();
    assert_eq!(lines.next(), Some("scratch"));
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let instructions: Vec<Vec<String>> = lines.map(words).collect();
    let of = |name: &str| {
        let all = instructions
            .iter()
            .filter(|words| words.first().is_some_and(|first| first == name));
        all.cloned().collect::<Vec<_>>()
    };
    let copied: Vec<String> = of("COPY")
        .iter()
        .map(|words| words.last().unwrap().clone())
        .collect();
    assert_eq!(
        copied,
        ["/etc/ssl/certs/ca-certificates.crt", "/LICENSE", "/llsd"]
    );
    assert!(of("ADD").is_empty() && of("RUN").is_empty());
    assert_eq!(of("USER"), [["USER", "65532:65532"]]);
    assert_eq!(of("ENTRYPOINT"), [["ENTRYPOINT", "[\"/llsd\"]"]]);
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_checkout() {
    let read = |file: &str| std::fs::read_to_string(checkout().join(file)).unwrap();
    let pinned = read("rust-toolchain.toml");
    let channel = pinned
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap();
    let version = channel.trim_matches('"');
    assert!(read("Dockerfile").contains(&format!("ARG RUST={version}\n")));
}

#[test]
fn the_docker_ignore_file_excludes_nothing_that_the_build_needs() {
    let ignored = std::fs::read_to_string(checkout().join(".dockerignore")).unwrap();
    for line in ignored.lines().filter(|line| !line.starts_with('#')) {
        let is_source = ["host", "plugins", "guest-sdk", "wit", "Cargo"]
            .iter()
            .any(|part| line.starts_with(part));
        assert!(!is_source, "{line}");
    }
}

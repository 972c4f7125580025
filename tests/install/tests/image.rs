//! The environment in which the binary of the container image must run.

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

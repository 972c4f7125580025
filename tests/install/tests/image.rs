//! What goes into the container, and that the binary can live in it.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::Command;

use llsd_install::{checkout, program};

/// Runs `llsd` as in the pod: a root that cannot be written, no home, no environment.
fn in_a_sealed_container(arguments: &str) -> std::process::Output {
    let script = format!("mount -o remount,bind,ro / && exec \"$0\" {arguments}");
    let mut sealed = Command::new("unshare");
    sealed
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(program("LLSD_BIN").unwrap())
        .current_dir(checkout());
    let path = std::env::var_os("PATH").unwrap_or_default();
    sealed
        .env_clear()
        .env("PATH", path)
        .env("HOME", "/dev/null/home");
    sealed.output().unwrap()
}

#[test]
fn the_binary_works_with_a_read_only_root_and_without_a_home() {
    let output = in_a_sealed_container("render -f samples/minimal.yaml");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    let file = String::from_utf8_lossy(&output.stdout);
    assert!(file.contains("http://vllm:8000/v1"), "{file}");
}

#[test]
fn the_operator_says_what_it_lacks_instead_of_dying_of_it() {
    let output = in_a_sealed_container("operator");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no cluster to talk to"), "{error}");
}

#[test]
fn the_image_holds_three_files_and_runs_as_nobody() {
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
fn the_toolchain_of_the_image_is_that_of_the_checkout() {
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
fn what_the_build_ignores_is_not_what_it_needs() {
    let ignored = std::fs::read_to_string(checkout().join(".dockerignore")).unwrap();
    for line in ignored.lines().filter(|line| !line.starts_with('#')) {
        let is_source = ["host", "plugins", "guest-sdk", "wit", "Cargo"]
            .iter()
            .any(|part| line.starts_with(part));
        assert!(!is_source, "{line}");
    }
}

//! The check of the prerequisites, on a machine without them.
//!
//! Each test runs xtask with its own environment and its own rustup home. The toolchain is a copy of the
//! one in use, without the WebAssembly target.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const TARGET: &str = "wasm32-unknown-unknown";
/// The directory of rustup's lists of components. rustup rewrites them, so they must not be hard links.
const RUSTUP_FILES: &str = "lib/rustlib";

#[test]
fn a_missing_target_is_installed_through_rustup() {
    let machine = Machine::without_target();
    let rustup = machine.link_program("rustup");
    assert!(rustup.exists());
    let output = machine.xtask(&["--prerequisites", "plugins"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains(&format!(
            "==> installing the Rust target {TARGET} with rustup"
        )),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(machine.toolchain.join("lib/rustlib").join(TARGET).exists());

    let again = machine.xtask(&["--prerequisites", "plugins"]);
    assert_eq!(String::from_utf8_lossy(&again.stderr), "");
    assert!(again.status.success());
}

#[test]
fn without_rustup_a_missing_target_fails_at_once_with_the_instruction() {
    let machine = Machine::without_target();
    for task in ["demo", "plugins", "generate"] {
        let start = Instant::now();
        let output = machine.xtask(&[task]);
        assert!(start.elapsed() < Duration::from_secs(20), "{task}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr).trim_end(),
            format!(
                "==> installing the Rust target {TARGET} with rustup (toolchain {name})\n\
                 error: `cargo xtask {task}` cannot start:\n\n  \
                 the Rust target {TARGET} is not installed, and rustup is not on PATH\n    \
                 fix: run `rustup target add {TARGET} --toolchain {name}`",
                name = machine.toolchain_name()
            )
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn without_rustup_the_message_names_the_package_of_the_linux_distribution() {
    let machine = Machine::without_target();
    // A toolchain without this file is not managed by rustup.
    let manifest = "lib/rustlib/multirust-channel-manifest.toml";
    std::fs::remove_file(machine.toolchain.join(manifest)).unwrap();
    let output = machine.xtask(&["demo"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("libstd-rust-dev-wasm32"), "{stderr}");
}

#[test]
fn everything_that_is_missing_is_listed_at_once() {
    let machine = Machine::without_target();
    std::fs::remove_file(machine.toolchain.join("bin/cargo-fmt")).unwrap();
    std::fs::remove_file(machine.toolchain.join("bin/cargo-clippy")).unwrap();
    let start = Instant::now();
    let output = machine.xtask(&["test"]);
    assert!(start.elapsed() < Duration::from_secs(20));
    let stderr = String::from_utf8_lossy(&output.stderr);
    for missing in [
        "the Rust target wasm32-unknown-unknown is not installed",
        "the Rust component rustfmt is not installed",
        "the Rust component clippy is not installed",
        "Go was not found on PATH\n    fix: install Go 1.26 or later",
        "Python 3.12 with its venv module was not found: the server packages need this version\n    fix: install Python 3.12",
    ] {
        assert!(stderr.contains(missing), "{missing:?} in:\n{stderr}");
    }
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_old_go_is_reported_with_the_required_version() {
    let machine = Machine::without_target();
    machine.script("go", "echo go1.20.1");
    let output = machine.xtask(&["control-plane", "env"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("Go is too old: found go1.20.1\n    fix: install Go 1.26 or later"),
        "{stderr}"
    );
}

#[test]
fn a_build_without_xtask_fails_with_the_same_message() {
    let machine = Machine::without_target();
    // The linker and the programs that it runs.
    for program in ["cc", "ld", "as"] {
        machine.link_program(program);
    }
    let mut cargo = machine.command(&machine.toolchain.join("bin/cargo"));
    let output = cargo
        .args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            "llsd-componentize",
        ])
        .current_dir(checkout())
        .env("CARGO_HOME", cargo_home())
        .env("CARGO_TARGET_DIR", machine.home().join("target"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let instruction = format!(
        "the Rust target {TARGET} is not installed; run `rustup target add {TARGET} --toolchain {}`",
        machine.toolchain_name()
    );
    assert!(stderr.contains(&instruction), "{stderr}");
    assert!(!stderr.contains("stack backtrace"), "{stderr}");
}

/// A machine with its own home directory, `PATH` and Rust toolchain, and nothing else.
struct Machine {
    folder: tempfile::TempDir,
    toolchain: PathBuf,
}

impl Machine {
    /// A copy of the toolchain in use, without the target and without rustup on `PATH`.
    fn without_target() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let original = sysroot();
        // rustup's name for the toolchain of a release.
        let name = format!("{}-{}", pinned_channel(), host());
        let toolchain = folder.path().join("rustup/toolchains").join(name);
        copy(&original, &toolchain, Path::new(""));
        let lists = toolchain.join(RUSTUP_FILES);
        remove_lines(&lists.join("components"), TARGET);
        remove_component(&lists.join("multirust-config.toml"));
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("home")).unwrap();
        Self { folder, toolchain }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn toolchain_name(&self) -> String {
        let name = self.toolchain.file_name().unwrap();
        name.to_str().unwrap().to_owned()
    }

    /// Puts a program of the real machine on `PATH`.
    fn link_program(&self, name: &str) -> PathBuf {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
            .unwrap_or_else(|| panic!("{name} is not on PATH"));
        let link = self.folder.path().join("bin").join(name);
        std::os::unix::fs::symlink(found, &link).unwrap();
        link
    }

    /// Puts a shell script on `PATH`.
    fn script(&self, name: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt;
        let file = self.folder.path().join("bin").join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn xtask(&self, arguments: &[&str]) -> Output {
        let mut xtask = self.command(Path::new(env!("CARGO_BIN_EXE_xtask")));
        xtask.args(arguments).output().unwrap()
    }

    /// A command that only sees this machine, with backtraces enabled.
    fn command(&self, program: &Path) -> Command {
        let bin = self.folder.path().join("bin");
        let path = std::env::join_paths([bin, self.toolchain.join("bin")]).unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("RUSTUP_HOME", self.folder.path().join("rustup"))
            .env("RUSTUP_AUTO_INSTALL", "0")
            .env("RUST_BACKTRACE", "1");
        // Access to the network is not part of the test.
        for (name, value) in std::env::vars_os() {
            let text = name.to_string_lossy().to_lowercase();
            let is_network = text.ends_with("_proxy")
                || text.contains("ssl_cert")
                || matches!(text.as_str(), "rustup_dist_server" | "rustup_update_root");
            if is_network {
                command.env(name, value);
            }
        }
        command
    }
}

/// Copies a toolchain, with hard links if possible. The WebAssembly target and the documentation are
/// left out. Files that rustup rewrites are copied.
fn copy(from: &Path, to: &Path, below: &Path) {
    std::fs::create_dir_all(to.join(below)).unwrap();
    for entry in std::fs::read_dir(from.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path == Path::new("share") || name == TARGET || name.ends_with(TARGET) {
            continue;
        }
        let (source, copy) = (from.join(&path), to.join(&path));
        if entry.file_type().unwrap().is_dir() {
            self::copy(from, to, &path);
        } else if below == Path::new(RUSTUP_FILES) || std::fs::hard_link(&source, &copy).is_err() {
            std::fs::copy(&source, &copy).unwrap();
        }
    }
}

fn remove_lines(file: &Path, text: &str) {
    let content = std::fs::read_to_string(file).unwrap();
    let remaining: Vec<&str> = content
        .lines()
        .filter(|line| !line.contains(text))
        .collect();
    std::fs::write(file, remaining.join("\n") + "\n").unwrap();
}

/// Removes the target from rustup's list of installed components.
fn remove_component(file: &Path) {
    let content = std::fs::read_to_string(file).unwrap();
    let entries = content.split("[[components]]");
    let remaining: Vec<&str> = entries.filter(|entry| !entry.contains(TARGET)).collect();
    std::fs::write(file, remaining.join("[[components]]")).unwrap();
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo_home() -> PathBuf {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"))
}

fn rustc(arguments: &[&str]) -> String {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(arguments).current_dir(checkout()).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn sysroot() -> PathBuf {
    PathBuf::from(rustc(&["--print", "sysroot"]).trim())
}

fn host() -> String {
    let text = rustc(&["--version", "--verbose"]);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

fn pinned_channel() -> String {
    let file = std::fs::read_to_string(checkout().join("rust-toolchain.toml")).unwrap();
    let line = file
        .lines()
        .find_map(|line| line.strip_prefix("channel = "));
    line.unwrap().trim_matches('"').to_owned()
}

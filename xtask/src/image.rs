//! `cargo xtask image`: the operator's image, with a static binary.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{artifacts, shell};

/// The target of a static binary for this machine.
pub const TARGET: &str = match cfg!(target_arch = "aarch64") {
    true => "aarch64-unknown-linux-musl",
    false => "x86_64-unknown-linux-musl",
};

/// Writes the image with `binary`, or with a new static binary, to `target/image`.
pub fn run(binary: Option<&Path>) -> anyhow::Result<()> {
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => build_static()?,
    };
    artifacts::build()?.image(&binary, TARGET)
}

/// Builds `llsd` for release as a static binary, and returns its path.
///
/// The same commit gives the same binary: the toolchain is pinned, the lock file is binding, and the
/// paths of this machine are taken out.
fn build_static() -> anyhow::Result<PathBuf> {
    let home = cargo_home()?;
    let root = shell::root();
    let remap = [
        format!("--remap-path-prefix={}=.", root.display()),
        format!("--remap-path-prefix={}=cargo", home.display()),
    ];
    let mut build = shell::cargo(&["build", "--locked", "--release", "--package", "llsd"]);
    build
        .args(["--target", TARGET])
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_ENCODED_RUSTFLAGS", remap.join("\u{1f}"))
        .env(
            format!("CFLAGS_{}", TARGET.replace('-', "_")),
            format!("-ffile-prefix-map={}=cargo", home.display()),
        );
    shell::step(
        "build a static llsd (some minutes the first time)",
        &mut build,
    )?;
    Ok(shell::target().join(TARGET).join("release/llsd"))
}

/// Where cargo keeps the sources of crates, whose paths are in panic messages.
fn cargo_home() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    given
        .or_else(home)
        .context("no cargo home; set CARGO_HOME or HOME")
}

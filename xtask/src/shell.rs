//! Running other programs, and where things are.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .components()
        .collect()
}

/// Cargo's output folder of this workspace.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// What is fetched or built once and kept outside the checkout.
pub fn cache() -> anyhow::Result<PathBuf> {
    let explicit = std::env::var_os("LLSD_CACHE").map(PathBuf::from);
    let xdg = || std::env::var_os("XDG_CACHE_HOME").map(|base| PathBuf::from(base).join("llsd"));
    let home = || std::env::var_os("HOME").map(|base| PathBuf::from(base).join(".cache/llsd"));
    explicit
        .or_else(xdg)
        .or_else(home)
        .context("no cache folder is known; set LLSD_CACHE or HOME")
}

/// Cargo, run in the checkout.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Builds the binary `llsd` with the features that the whole workspace has.
pub fn build_llsd() -> anyhow::Result<()> {
    step(
        "build llsd (some minutes the first time)",
        &mut cargo(&["build", "--workspace", "--bin", "llsd"]),
    )
}

/// Builds `llsd` for release, and returns its path.
pub fn build_release() -> anyhow::Result<PathBuf> {
    step(
        "build llsd for release (some minutes the first time)",
        &mut cargo(&["build", "--locked", "--release", "--package", "llsd"]),
    )?;
    Ok(target().join("release/llsd"))
}

/// Says what begins, runs it, and fails when it fails.
pub fn step(title: &str, command: &mut Command) -> anyhow::Result<()> {
    let begin = announce(title);
    let status = command
        .status()
        .with_context(|| format!("{title}: failed to start {command:?}"))?;
    if !status.success() {
        bail!("{title} failed ({status}); its own messages are above");
    }
    done(title, begin);
    Ok(())
}

/// Like [`step`], and hands every line of standard output to `see` after showing it.
pub fn watch(title: &str, command: &mut Command, mut see: impl FnMut(&str)) -> anyhow::Result<()> {
    let begin = announce(title);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{title}: failed to start {command:?}"))?;
    let stdout = child
        .stdout
        .take()
        .context("standard output was not piped")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        see(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{title} failed ({status}); its own messages are above");
    }
    done(title, begin);
    Ok(())
}

fn announce(title: &str) -> Instant {
    eprintln!("==> {title}");
    Instant::now()
}

fn done(title: &str, begin: Instant) {
    eprintln!("    {title}: done in {:.0?}", begin.elapsed());
}

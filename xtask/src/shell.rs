//! Runs other programs, and locates the directories of the workspace.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// The checkout. The path has no `..`, because compilers compare prefixes of paths as text.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cache outside the checkout, for downloads and programs that are built once.
pub fn cache() -> anyhow::Result<PathBuf> {
    let explicit = std::env::var_os("LLSD_CACHE").map(PathBuf::from);
    let xdg = || std::env::var_os("XDG_CACHE_HOME").map(|base| PathBuf::from(base).join("llsd"));
    let home = || std::env::var_os("HOME").map(|base| PathBuf::from(base).join(".cache/llsd"));
    explicit
        .or_else(xdg)
        .or_else(home)
        .context("no cache directory; set LLSD_CACHE or HOME")
}

/// A cargo command that runs in the checkout.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Builds the binary `llsd` with the features of the whole workspace.
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

/// Prints the title, runs the command and prints how long it took. Fails if the command fails.
pub fn step(title: &str, command: &mut Command) -> anyhow::Result<()> {
    let start = announce(title);
    let status = command
        .status()
        .with_context(|| format!("{title}: failed to start {command:?}"))?;
    if !status.success() {
        bail!("{title} failed ({status}); see its messages above");
    }
    done(title, start);
    Ok(())
}

/// Like [`step`], and calls `on_line` with every line of standard output instead of printing it.
pub fn watch(
    title: &str,
    command: &mut Command,
    mut on_line: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let start = announce(title);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{title}: failed to start {command:?}"))?;
    let stdout = child
        .stdout
        .take()
        .context("standard output was not piped")?;
    for line in BufReader::new(stdout).lines() {
        on_line(&line?)?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{title} failed ({status}); see its messages above");
    }
    done(title, start);
    Ok(())
}

fn announce(title: &str) -> Instant {
    eprintln!("==> {title}");
    Instant::now()
}

fn done(title: &str, start: Instant) {
    eprintln!("    {title}: done in {:.0?}", start.elapsed());
}

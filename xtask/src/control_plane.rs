//! `cargo xtask control-plane`: the Kubernetes control plane that tests run against.
//!
//! The work is done by the `testbed` program of `tests/testbed`; here it is only called, so that
//! this crate stays quick to build.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::shell;

/// The programs that tests start, by name; `kube-apiserver-oldest` is that of the oldest release.
pub type ControlPlaneBinaries = BTreeMap<String, PathBuf>;

/// Builds every program that is not in the cache yet, with progress on stderr.
pub fn ensure_control_plane(cache: &Path) -> anyhow::Result<ControlPlaneBinaries> {
    let output = testbed(cache, ["build"])?
        .stderr(Stdio::inherit())
        .output()
        .context("could not start cargo")?;
    if !output.status.success() {
        bail!("the control plane could not be built: {}", output.status);
    }
    let lines = String::from_utf8(output.stdout).context("testbed printed something unreadable")?;
    let path_of = |line: &str| {
        let (name, path) = line.split_once('=')?;
        Some((name.to_owned(), PathBuf::from(path)))
    };
    Ok(lines.lines().filter_map(path_of).collect())
}

/// Starts a control plane of the newest release that stays until [`down`], and prints its variables.
pub fn up(cache: &Path) -> anyhow::Result<()> {
    run(&mut testbed(cache, ["up"])?)
}

/// Stops what [`up`] started.
pub fn down(cache: &Path) -> anyhow::Result<()> {
    run(&mut testbed(cache, ["down"])?)
}

/// Prints the variables of what [`up`] started, for `eval "$(cargo xtask control-plane env)"`.
pub fn env(cache: &Path) -> anyhow::Result<()> {
    run(&mut testbed(cache, ["env"])?)
}

/// `command`, changed to run with one control plane of each release, which end when it does.
///
/// Tests find them through `LLSD_TESTBED` and `LLSD_TESTBED_OLDEST`.
pub fn with_control_planes(cache: &Path, command: &Command) -> anyhow::Result<Command> {
    let mut run = testbed(
        cache,
        ["run", "--release", "newest", "--release", "oldest", "--"],
    )?;
    run.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => run.env(name, value),
            None => run.env_remove(name),
        };
    }
    Ok(run)
}

/// Runs a playground with these samples until Ctrl-C.
pub fn playground(cache: &Path, samples: &[&str]) -> anyhow::Result<()> {
    let mut playground = testbed(cache, ["playground", "--llsd"])?;
    playground.arg(shell::target().join("debug/llsd"));
    playground.args(samples);
    run(&mut playground)
}

/// The program, built with the features that the whole workspace has, so that nothing is built twice.
fn testbed<'a>(
    cache: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<Command> {
    run(&mut shell::cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "testbed",
    ]))?;
    let mut command = Command::new(shell::target().join("debug/testbed"));
    command
        .args(arguments.into_iter().map(OsStr::new))
        .current_dir(shell::root())
        .env("LLSD_CACHE", cache);
    Ok(command)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("could not start it")?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

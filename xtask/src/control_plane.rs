//! `cargo xtask control-plane`: the Kubernetes control plane that tests run against.
//!
//! The work is done by the `testbed` program of `tests/testbed`; here it is only called, so that
//! this crate stays quick to build.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::shell;

/// The programs that tests start, by name; `kube-apiserver-oldest` is that of the oldest release.
pub type ControlPlaneBinaries = BTreeMap<String, PathBuf>;

/// The program `testbed`, ready to be called.
pub struct Testbed<'a> {
    cache: &'a Path,
}

impl<'a> Testbed<'a> {
    /// Builds the program, with the features that the whole workspace has.
    pub fn build(cache: &'a Path) -> anyhow::Result<Self> {
        run(&mut shell::cargo(&[
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "testbed",
        ]))?;
        Ok(Self { cache })
    }

    /// The program as it was built together with the tests: their features are others, so that
    /// building it once more would build its dependencies once more.
    pub fn built(cache: &'a Path) -> Self {
        Self { cache }
    }

    /// Builds every program that is not in the cache yet, with progress on stderr.
    pub fn ensure_control_plane(&self) -> anyhow::Result<ControlPlaneBinaries> {
        let output = self
            .command(["build"])
            .stderr(Stdio::inherit())
            .output()
            .context("could not start the testbed")?;
        if !output.status.success() {
            bail!("the control plane could not be built: {}", output.status);
        }
        let lines =
            String::from_utf8(output.stdout).context("testbed printed something unreadable")?;
        let path_of = |line: &str| {
            let (name, path) = line.split_once('=')?;
            Some((name.to_owned(), PathBuf::from(path)))
        };
        Ok(lines.lines().filter_map(path_of).collect())
    }

    /// Starts a control plane of the newest release that stays until [`down`](Self::down), and
    /// prints its variables.
    pub fn up(&self) -> anyhow::Result<()> {
        run(&mut self.command(["up"]))
    }

    /// Stops what [`up`](Self::up) started.
    pub fn down(&self) -> anyhow::Result<()> {
        run(&mut self.command(["down"]))
    }

    /// Prints the variables of what [`up`](Self::up) started, for
    /// `eval "$(cargo xtask control-plane env)"`.
    pub fn env(&self) -> anyhow::Result<()> {
        run(&mut self.command(["env"]))
    }

    /// `command`, changed to run with one control plane of each release, which end when it does.
    ///
    /// Tests find them through `LLSD_TESTBED` and `LLSD_TESTBED_OLDEST`.
    pub fn with_control_planes(&self, command: &Command) -> Command {
        let mut run = self.command(["run", "--release", "newest", "--release", "oldest", "--"]);
        run.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => run.env(name, value),
                None => run.env_remove(name),
            };
        }
        run
    }

    /// Becomes a playground with these samples, until Ctrl-C; comes back only when it cannot. As a
    /// process of its own the playground would still be clearing up when this one has ended.
    pub fn playground(&self, samples: &[&str]) -> anyhow::Error {
        let mut playground = self.command(["playground", "--llsd"]);
        playground.arg(shell::target().join("debug/llsd"));
        playground.args(samples);
        anyhow::Error::new(playground.exec()).context("could not start the testbed")
    }

    fn command<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Command {
        let mut command = Command::new(shell::target().join("debug/testbed"));
        command
            .args(arguments.into_iter().map(OsStr::new))
            .current_dir(shell::root())
            .env("LLSD_CACHE", self.cache);
        command
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("could not start it")?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

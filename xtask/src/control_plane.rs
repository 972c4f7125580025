//! `cargo xtask control-plane`: the Kubernetes control plane that tests run against.
//!
//! Runs the program `testbed` of `tests/testbed`. It is not a dependency, so that xtask compiles
//! quickly.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::node::ServerPackages;
use crate::shell;

/// The programs that tests start, by name. `kube-apiserver-oldest` is of the oldest supported release.
pub type ControlPlaneBinaries = BTreeMap<String, PathBuf>;

/// The built program `testbed`.
pub struct Testbed<'a> {
    cache: &'a Path,
}

impl<'a> Testbed<'a> {
    /// Builds the program with `--workspace`, so that dependencies are built with the same features as
    /// for everything else.
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

    /// The program, which was already built together with the tests. Tests enable more features, so
    /// that building it again would build its dependencies again.
    pub fn built(cache: &'a Path) -> Self {
        Self { cache }
    }

    /// Builds every program that is not in the cache. Progress is printed to stderr.
    pub fn ensure_control_plane(&self) -> anyhow::Result<ControlPlaneBinaries> {
        self.ensure_tools(&[])
    }

    /// Builds those of `tools` that are not in the cache, or of all tools if none is named.
    pub fn ensure_tools(&self, tools: &[&str]) -> anyhow::Result<ControlPlaneBinaries> {
        let output = self
            .command(["build"])
            .args(tools)
            .stderr(Stdio::inherit())
            .output()
            .context("failed to start the testbed")?;
        if !output.status.success() {
            bail!(
                "failed to build the programs of the testbed ({})",
                output.status
            );
        }
        let lines = String::from_utf8(output.stdout).context("testbed printed invalid UTF-8")?;
        let path_of = |line: &str| {
            let (name, path) = line.split_once('=')?;
            Some((name.to_owned(), PathBuf::from(path)))
        };
        Ok(lines.lines().filter_map(path_of).collect())
    }

    /// Starts a control plane of the newest release, which runs until [`down`](Self::down), and prints
    /// its environment variables.
    pub fn up(&self) -> anyhow::Result<()> {
        run(&mut self.command(["up"]))
    }

    /// Stops the control plane that [`up`](Self::up) started.
    pub fn down(&self) -> anyhow::Result<()> {
        run(&mut self.command(["down"]))
    }

    /// Prints the environment variables of the control plane that [`up`](Self::up) started, for
    /// `eval "$(cargo xtask control-plane env)"`.
    pub fn env(&self) -> anyhow::Result<()> {
        run(&mut self.command(["env"]))
    }

    /// Wraps `command`, so that it runs with a control plane of the newest and of the oldest release.
    ///
    /// Tests find them in `LLSD_TESTBED` and `LLSD_TESTBED_OLDEST`. They stop when the command ends.
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

    /// Replaces this process by the playground with these samples, which runs until Ctrl-C. Returns only
    /// if that fails. As a child process, the playground would still clean up after xtask has ended.
    ///
    /// With the packages of a server, the node is real.
    pub fn playground(&self, samples: &[&str], packages: Option<&ServerPackages>) -> anyhow::Error {
        let mut playground = self.command(["playground", "--llsd"]);
        playground.arg(shell::target().join("debug/llsd"));
        if let Some(ServerPackages { venvs, python }) = packages {
            playground.arg("--venvs").arg(venvs);
            playground.arg("--python").arg(python);
        }
        playground.args(samples);
        anyhow::Error::new(playground.exec()).context("failed to start the testbed")
    }

    /// Why no real node can run on this machine. `None` if one can.
    pub fn node_problem(&self) -> anyhow::Result<Option<String>> {
        let output = self
            .command(["node", "check"])
            .stderr(Stdio::inherit())
            .output()
            .context("failed to start the testbed")?;
        let reason = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((!output.status.success()).then_some(reason))
    }

    /// Starts a real node, which runs until [`node_down`](Self::node_down), and prints its environment
    /// variables.
    pub fn node_up(&self) -> anyhow::Result<()> {
        run(&mut self.command(["node", "up"]))
    }

    /// Stops the node that [`node_up`](Self::node_up) started, and removes what killed nodes left.
    pub fn node_down(&self) -> anyhow::Result<()> {
        run(&mut self.command(["node", "down"]))
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
    let status = command
        .status()
        .with_context(|| format!("failed to start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}

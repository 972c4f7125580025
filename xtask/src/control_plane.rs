//! `cargo xtask control-plane`: the Kubernetes control plane that tests run against.
//!
//! Runs the program `testbed` of `tests/testbed`. It is not a dependency, so that xtask compiles
//! quickly.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::node::ServerPackages;
use crate::shell;

/// Running control planes.
pub struct ControlPlanes {
    process: Child,
    /// The environment variables by which tests find them.
    pub variables: Vec<(String, String)>,
}

impl Drop for ControlPlanes {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // They have stopped either way.
        let _ = self.process.wait();
    }
}

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

    /// Starts a control plane of the newest and one of the oldest release. They stop when the returned
    /// value is dropped, or this process ends.
    pub fn start_control_planes(&self) -> anyhow::Result<ControlPlanes> {
        // The shell runs, and the control planes with it, until its standard input is closed.
        let print_variables = "env | grep ^LLSD_TESTBED; echo; exec cat";
        let mut run = self.command(["run", "--release", "newest", "--release", "oldest", "--"]);
        run.args(["sh", "-c", print_variables])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = run.spawn().context("failed to start the testbed")?;
        let stdout = process.stdout.take().context("the output was not piped")?;
        let mut variables = Vec::new();
        for line in BufReader::new(stdout).lines() {
            match line?.split_once('=') {
                Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
                None => break,
            }
        }
        let control_planes = ControlPlanes { process, variables };
        ensure!(
            !control_planes.variables.is_empty(),
            "the control planes did not start; see the messages above"
        );
        Ok(control_planes)
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

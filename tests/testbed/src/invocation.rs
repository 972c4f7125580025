//! Runs a command for a test and returns its exit status and output.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A command that runs longer is hanging.
const DEADLINE: Duration = Duration::from_secs(240);

/// A command to run.
#[derive(Debug)]
pub struct Invocation {
    command: Command,
    input: Vec<u8>,
}

/// The exit status and output of a command.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The command line.
    pub command: String,
    /// The exit status; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Invocation {
    /// A program without arguments. It is killed when the test ends.
    pub fn new(program: &Path) -> Self {
        let mut command = Command::new(program);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self {
            command,
            input: Vec::new(),
        }
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds one argument.
    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// Adds `--namespace`.
    pub fn namespace(self, namespace: &str) -> Self {
        self.args(["--namespace", namespace])
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets its standard input, which is empty otherwise.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Runs the command until it exits. A non-zero exit status is not an error here: see
    /// [`Finished::success`].
    pub async fn run(self) -> Result<Finished> {
        let Self { mut command, input } = self;
        let shown = show(&command);
        let run = async {
            let mut child = command.stdin(Stdio::piped()).spawn()?;
            let pipe = child.stdin.take();
            let write = async move {
                if let Some(mut pipe) = pipe {
                    // A command that does not read its input closes the pipe early.
                    let _ = pipe.write_all(&input).await;
                }
            };
            let ((), output) = tokio::join!(write, child.wait_with_output());
            output
        };
        let output = tokio::time::timeout(DEADLINE, run)
            .await
            .with_context(|| format!("`{shown}` did not exit within {DEADLINE:?}"))?
            .with_context(|| format!("failed to run `{shown}`"))?;
        Ok(Finished {
            command: shown,
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

impl Finished {
    /// The standard output if the exit status is 0; otherwise an error with all output.
    pub fn success(self) -> Result<String> {
        if self.code == Some(0) {
            return Ok(self.stdout);
        }
        let Self {
            command,
            code,
            stdout,
            stderr,
        } = self;
        let code = code.map_or("a signal".to_owned(), |code| format!("status {code}"));
        bail!("`{command}` exited with {code}\n{stdout}{stderr}")
    }

    /// The standard error if the exit status is not 0; otherwise an error with its output.
    pub fn failure(self) -> Result<String> {
        if self.code != Some(0) {
            return Ok(self.stderr);
        }
        bail!(
            "`{}` must fail, but it succeeded and printed\n{}",
            self.command,
            self.stdout
        )
    }
}

fn show(command: &Command) -> String {
    let command = command.as_std();
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

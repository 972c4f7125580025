//! `testbed`: builds, starts and stops the control plane outside of a test.
//!
//! `cargo xtask control-plane` runs it.

mod node_task;
mod playground;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use llsd_testbed::node::ServerPackages;
use llsd_testbed::toolchain::{self, Release, Tool};
use llsd_testbed::{ControlPlane, Controllers, State, Testbed};

#[derive(Parser)]
#[command(about = "Builds, starts and stops a Kubernetes control plane for tests")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build every tool, or those named, and print `name=path` for each
    Build {
        /// Names of tools
        tools: Vec<String>,
    },
    /// Start a control plane in the background, unless one is running, and print its variables
    Up {
        #[arg(long, value_enum, default_value = "newest")]
        release: ReleaseArg,
    },
    /// Stop the control planes that `up` started
    Down,
    /// Print the variables of the running control planes, for `eval`
    Env,
    /// Start a control plane, run a command with it, and stop it
    Run {
        #[arg(long, value_enum, default_value = "newest")]
        release: Vec<ReleaseArg>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Start, stop or run a real node
    #[command(subcommand)]
    Node(node_task::NodeTask),
    /// Start a control plane, a registry and an operator, apply resources, and run until Ctrl-C
    Playground {
        /// Path of the `llsd` binary
        #[arg(long)]
        llsd: PathBuf,
        /// Use a real node, with a server of these packages: the folder of the virtual environments
        #[arg(long, requires = "python")]
        venvs: Option<PathBuf>,
        /// Python 3.12, for the server's image
        #[arg(long)]
        python: Option<PathBuf>,
        /// Manifests to apply on a simulated node
        resources: Vec<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReleaseArg {
    Newest,
    Oldest,
}

impl ReleaseArg {
    const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    fn release(self) -> Release {
        match self {
            Self::Newest => Release::Newest,
            Self::Oldest => Release::Oldest,
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Newest => "LLSD_TESTBED",
            Self::Oldest => "LLSD_TESTBED_OLDEST",
        }
    }

    /// The folder of the control plane that `up` starts.
    fn folder(self) -> Result<PathBuf> {
        let name = match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        };
        Ok(toolchain::cache_dir()?.join("testbed/run").join(name))
    }

    /// The state of the control plane that `up` started, if its API server responds.
    async fn running(self) -> Result<Option<State>> {
        let file = State::file(&self.folder()?);
        if !file.is_file() {
            return Ok(None);
        }
        let testbed = Testbed::connect(&file)?;
        let responds = testbed
            .client("admin")
            .await?
            .apiserver_version()
            .await
            .is_ok();
        Ok(responds.then(|| testbed.state().clone()))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    // Not returned from `main`: the standard library would print a backtrace with it.
    run_task(Arguments::parse().task)
        .await
        .unwrap_or_else(|error| {
            print_error(&error);
            ExitCode::FAILURE
        })
}

async fn run_task(task: Task) -> Result<ExitCode> {
    match task {
        Task::Build { tools } => build(&tools),
        Task::Up { release } => up(release).await,
        Task::Down => down(),
        Task::Env => env().await,
        Task::Run { release, command } => run(&release, &command).await,
        Task::Node(task) => node_task::run(task).await,
        Task::Playground {
            llsd,
            venvs,
            python,
            resources,
        } => {
            let packages = venvs.zip(python);
            let packages = packages.map(|(venvs, python)| ServerPackages { venvs, python });
            playground::run(&llsd, &resources, packages).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn build(names: &[String]) -> Result<ExitCode> {
    let unknown = names
        .iter()
        .find(|name| !Tool::ALL.iter().any(|tool| tool.name() == *name));
    if let Some(name) = unknown {
        bail!("no tool is called \"{name}\"");
    }
    let is_wanted = |tool: &Tool| names.is_empty() || names.iter().any(|name| tool.name() == name);
    let tools: Vec<Tool> = Tool::ALL.into_iter().filter(is_wanted).collect();
    let binaries = toolchain::ensure_built(&toolchain::cache_dir()?, &tools)?;
    for (tool, path) in tools.into_iter().zip(binaries) {
        print_line(&format!("{tool}={}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(release: ReleaseArg) -> Result<ExitCode> {
    let state = match release.running().await? {
        Some(state) => state,
        None => {
            let folder = release.folder()?;
            // A control plane that does not respond may have left processes behind.
            if let Ok(old) = State::load(&State::file(&folder)) {
                old.stop()?;
            }
            ControlPlane::start(release.release(), Controllers::Run, &folder)
                .await?
                .release()
        }
    };
    print_variables(release, &state);
    Ok(ExitCode::SUCCESS)
}

fn down() -> Result<ExitCode> {
    for release in ReleaseArg::ALL {
        let file = State::file(&release.folder()?);
        if file.is_file() {
            State::load(&file)?.stop()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn env() -> Result<ExitCode> {
    let mut is_running = false;
    for release in ReleaseArg::ALL {
        if let Some(state) = release.running().await? {
            print_variables(release, &state);
            is_running = true;
        }
    }
    ensure!(
        is_running,
        "no control plane is running; start one with `cargo xtask control-plane up`"
    );
    Ok(ExitCode::SUCCESS)
}

async fn run(releases: &[ReleaseArg], command: &[String]) -> Result<ExitCode> {
    let (program, arguments) = split_command(command)?;
    let mut child = Command::new(program);
    child.args(arguments);
    let mut testbeds = Vec::new();
    for release in releases {
        let testbed = Testbed::start(release.release()).await?;
        child.env(release.variable(), State::file(&testbed.state().folder));
        testbeds.push(testbed);
    }
    run_child(child)
}

fn split_command(command: &[String]) -> Result<(&String, &[String])> {
    command
        .split_first()
        .context("the command is missing; write it after `--`")
}

/// Runs a command until it exits, and returns its exit status.
fn run_child(mut child: Command) -> Result<ExitCode> {
    let status = child
        .status()
        .with_context(|| format!("failed to run {:?}", child.get_program()))?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}

fn print_variables(release: ReleaseArg, state: &State) {
    print_export(release.variable(), &State::file(&state.folder));
    if release == ReleaseArg::Newest {
        print_export("KUBECONFIG", &state.folder.join("admin.kubeconfig"));
    }
}

fn print_export(name: &str, path: &Path) {
    print_line(&format!("export {name}='{}'", path.display()));
}

#[expect(clippy::print_stderr, reason = "the error of a command")]
fn print_error(error: &anyhow::Error) {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
}

#[expect(clippy::print_stdout, reason = "the output of a command")]
fn print_line(line: &str) {
    println!("{line}");
}

//! `testbed`: builds, starts and stops the control plane outside of a test.
//!
//! `cargo xtask control-plane` is the way people reach it.

mod playground;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use llsd_testbed::toolchain::{self, Release, Tool};
use llsd_testbed::{ControlPlane, State, Testbed};

#[derive(Parser)]
#[command(about = "Builds, starts and stops a Kubernetes control plane for tests")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build every program and print `name=path` for each
    Build,
    /// Start a control plane that stays, or keep the one that runs; print its variables
    Up {
        #[arg(long, value_enum, default_value = "newest")]
        release: Choice,
    },
    /// Stop what `up` started
    Down,
    /// Print the variables of what `up` started, for `eval`
    Env,
    /// Run a command with a control plane of its own, and stop that afterwards
    Run {
        #[arg(long, value_enum, default_value = "newest")]
        release: Vec<Choice>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Start a control plane, a registry and an operator, apply resources, and stay until Ctrl-C
    Playground {
        /// The binary `llsd`
        #[arg(long)]
        llsd: PathBuf,
        /// Files of resources to apply
        resources: Vec<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    Newest,
    Oldest,
}

impl Choice {
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

    /// Where `up` keeps the control plane.
    fn folder(self) -> Result<PathBuf> {
        let name = match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        };
        Ok(toolchain::cache_dir()?.join("testbed/run").join(name))
    }

    /// The state of what `up` started, if that answers.
    async fn running(self) -> Result<Option<State>> {
        let file = State::file(&self.folder()?);
        if !file.is_file() {
            return Ok(None);
        }
        let testbed = Testbed::connect(&file)?;
        let answers = testbed
            .client("admin")
            .await?
            .apiserver_version()
            .await
            .is_ok();
        Ok(answers.then(|| testbed.state().clone()))
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
        Task::Build => build(),
        Task::Up { release } => up(release).await,
        Task::Down => down(),
        Task::Env => env().await,
        Task::Run { release, command } => run(&release, &command).await,
        Task::Playground { llsd, resources } => playground::run(&llsd, &resources)
            .await
            .map(|()| ExitCode::SUCCESS),
    }
}

fn build() -> Result<ExitCode> {
    let binaries = toolchain::ensure_built(&toolchain::cache_dir()?, &Tool::ALL)?;
    for (tool, path) in Tool::ALL.into_iter().zip(binaries) {
        let suffix = if tool == Tool::KubeApiserver(Release::Oldest) {
            "-oldest"
        } else {
            ""
        };
        print_line(&format!("{tool}{suffix}={}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(choice: Choice) -> Result<ExitCode> {
    let state = match choice.running().await? {
        Some(state) => state,
        None => {
            let folder = choice.folder()?;
            // One that no longer answers may have left programs behind.
            if let Ok(old) = State::load(&State::file(&folder)) {
                old.stop()?;
            }
            ControlPlane::start(choice.release(), &folder)
                .await?
                .release()
        }
    };
    print_variables(choice, &state);
    Ok(ExitCode::SUCCESS)
}

fn down() -> Result<ExitCode> {
    for choice in Choice::ALL {
        let file = State::file(&choice.folder()?);
        if file.is_file() {
            State::load(&file)?.stop()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn env() -> Result<ExitCode> {
    let mut runs = false;
    for choice in Choice::ALL {
        if let Some(state) = choice.running().await? {
            print_variables(choice, &state);
            runs = true;
        }
    }
    ensure!(
        runs,
        "no control plane runs; start one with `cargo xtask control-plane up`"
    );
    Ok(ExitCode::SUCCESS)
}

async fn run(choices: &[Choice], command: &[String]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut child = Command::new(program);
    child.args(arguments);
    let mut testbeds = Vec::new();
    for choice in choices {
        let testbed = Testbed::start(choice.release()).await?;
        child.env(choice.variable(), State::file(&testbed.state().folder));
        testbeds.push(testbed);
    }
    let status = child
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}

fn print_variables(choice: Choice, state: &State) {
    let export =
        |name: &str, path: &Path| print_line(&format!("export {name}='{}'", path.display()));
    export(choice.variable(), &State::file(&state.folder));
    if choice == Choice::Newest {
        export("KUBECONFIG", &state.folder.join("admin.kubeconfig"));
    }
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

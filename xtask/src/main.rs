//! `cargo xtask <task>`: everything that is done to this repository, by hand or by CI.

mod artifacts;
mod bench;
mod boundaries;
mod control_plane;
mod coverage;
mod demo;
mod oracle;
mod prerequisites;
mod test;
mod tools;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{report, shell};

use prerequisites::{CLIPPY, LLVM_TOOLS, Needs, RUSTFMT};

/// Tasks of the llsd workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// Check what the task needs, install what rustup can install, and stop
    #[arg(long)]
    prerequisites: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show the main job: a sample resource becomes a server configuration, offline
    Demo(Programs),
    /// Try it: a control plane, a registry, the operator and sample resources, until Ctrl-C
    Up(Programs),
    /// Run every test; fetches and builds what it needs into a cache outside the checkout
    Test,
    /// Measure generation in the sandbox beside native code, and how soon a plugin is ready
    Bench {
        /// Measure something else
        #[command(subcommand)]
        what: Option<Bench>,
    },
    /// Print which lines of the API and of the pure core their tests reach; fail when too few
    Coverage,
    /// Build every adapter to target/plugins/<name>.wasm
    Plugins,
    /// Start, stop or describe a control plane of the newest Kubernetes release
    ControlPlane {
        /// What to do with it
        #[arg(value_enum)]
        action: Action,
    },
    /// Make the release archive: binary, manifests, chart, plugins, checksums and bill of materials
    Package {
        /// Pack this binary instead of building one for release
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Install the real server packages, and prove the validator on them
    Oracle,
    /// Rewrite the generated files; with --check, fail when one of them is out of date
    Generate {
        /// Change nothing; fail on a difference
        #[arg(long)]
        check: bool,
    },
}

impl Task {
    /// As it is typed.
    fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Up(_) => "up",
            Self::Test => "test",
            Self::Bench { .. } => "bench",
            Self::Coverage => "coverage",
            Self::Plugins => "plugins",
            Self::ControlPlane { .. } => "control-plane",
            Self::Package { .. } => "package",
            Self::Oracle => "oracle",
            Self::Generate { .. } => "generate",
        }
    }

    /// What the task needs. Sizes were measured after a first run and rounded up.
    fn needs(&self) -> Needs {
        let builds_adapters = Needs {
            wasm_target: true,
            target_gib: 3,
            memory_gib: 2,
            ..Needs::default()
        };
        let runs_control_plane = Needs {
            go: true,
            cache_gib: 8,
            memory_gib: 4,
            ..builds_adapters
        };
        match self {
            Self::Demo(Programs { built: true }) => Needs::default(),
            Self::Demo(_) | Self::Plugins | Self::Generate { .. } | Self::Package { .. } => {
                builds_adapters
            }
            Self::Up(_) | Self::ControlPlane { .. } => runs_control_plane,
            Self::Bench { what: None } => builds_adapters,
            Self::Bench { what: Some(_) } => runs_control_plane,
            Self::Coverage => Needs {
                components: &[LLVM_TOOLS],
                ..builds_adapters
            },
            Self::Test => Needs {
                components: &[RUSTFMT, CLIPPY],
                python: true,
                target_gib: 14,
                cache_gib: 16,
                ..runs_control_plane
            },
            Self::Oracle => Needs {
                python: true,
                cache_gib: 10,
                ..Needs::default()
            },
        }
    }
}

/// Which programs to use.
#[derive(clap::Args)]
struct Programs {
    /// Those of the last build; nothing is built
    #[arg(long)]
    built: bool,
}

#[derive(Subcommand)]
enum Bench {
    /// What a fleet of resources costs the operator, on a control plane of its own
    Operator {
        /// Options of the measurement: -n NUMBER, --generated, --rest SECONDS
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// How long an API server waits for conversion and admission, on a control plane of their own
    Webhooks,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Build what is missing, start it, and leave it running
    Up,
    /// Stop it
    Down,
    /// Print its variables
    Env,
}

fn main() -> ExitCode {
    report::install_panic_message();
    report::exit_code(run(&Arguments::parse()))
}

fn run(
    Arguments {
        prerequisites,
        task,
    }: &Arguments,
) -> anyhow::Result<()> {
    prerequisites::ensure(task.name(), &task.needs())?;
    if *prerequisites {
        return Ok(());
    }
    match task {
        Task::Demo(Programs { built }) => demo::run(*built),
        Task::Up(Programs { built }) => up::run(*built),
        Task::Test => test::run(),
        Task::Bench { what: None } => bench::generation(),
        Task::Bench {
            what: Some(Bench::Operator { options }),
        } => bench::operator(options),
        Task::Bench {
            what: Some(Bench::Webhooks),
        } => bench::webhooks(),
        Task::Coverage => coverage::run(),
        Task::Plugins => artifacts::build()?.plugins().map(|_| ()),
        Task::ControlPlane { action } => {
            let cache = shell::cache()?;
            let testbed = control_plane::Testbed::build(&cache)?;
            match action {
                Action::Up => testbed.up(),
                Action::Down => testbed.down(),
                Action::Env => testbed.env(),
            }
        }
        Task::Package { binary } => {
            let binary = match binary {
                Some(binary) => binary.clone(),
                None => shell::build_release()?,
            };
            artifacts::build()?.package(&binary)
        }
        Task::Oracle => oracle::selftest(&oracle::ensure_oracle(&shell::cache()?)?),
        Task::Generate { check } => {
            shell::build_llsd()?;
            artifacts::build()?.generate(*check)
        }
    }
}

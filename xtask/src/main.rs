//! `cargo xtask <task>`: everything that is done to this repository, by hand or by CI.

mod bench;
mod boundaries;
mod chart;
mod control_plane;
mod coverage;
mod demo;
mod generate;
mod guests;
mod oracle;
mod package;
mod shell;
mod test;
mod tools;
mod up;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Tasks of the llsd workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
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

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Demo(Programs { built }) => demo::run(built),
        Task::Up(Programs { built }) => up::run(built),
        Task::Test => test::run(),
        Task::Bench { what: None } => bench::generation(),
        Task::Bench {
            what: Some(Bench::Operator { options }),
        } => bench::operator(&options),
        Task::Bench {
            what: Some(Bench::Webhooks),
        } => bench::webhooks(),
        Task::Coverage => coverage::run(),
        Task::Plugins => guests::build_all().map(|_| ()),
        Task::ControlPlane { action } => {
            let cache = shell::cache()?;
            let testbed = control_plane::Testbed::build(&cache)?;
            match action {
                Action::Up => testbed.up(),
                Action::Down => testbed.down(),
                Action::Env => testbed.env(),
            }
        }
        Task::Package { binary } => package::run(binary.as_deref()),
        Task::Oracle => oracle::selftest(&oracle::ensure_oracle(&shell::cache()?)?),
        Task::Generate { check } => generate::run(check),
    }
}

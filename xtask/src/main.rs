//! `cargo xtask <task>`: the tasks of this repository, for developers and CI.

mod artifacts;
mod bench;
mod boundaries;
mod control_plane;
mod coverage;
mod demo;
mod elf;
mod fuzz;
mod image;
mod node;
mod oracle;
mod prerequisites;
mod previous;
mod release;
mod static_binary;
mod test;
mod tools;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{report, shell};

use prerequisites::{CLIPPY, LLVM_TOOLS, Needs, RUSTFMT};

/// Build, test and package llsd
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// Only check the prerequisites of the task, and install those that rustup can install
    #[arg(long)]
    prerequisites: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Generate the server configuration of a sample resource, without a cluster
    Demo(Programs),
    /// Run a cluster with the operator and a server that answers, until Ctrl-C
    Up {
        #[command(flatten)]
        programs: Programs,
        /// Simulate the node: pods become ready, but no container runs
        #[arg(long)]
        simulated: bool,
    },
    /// Run every test; programs for the tests are built into a cache outside the checkout
    Test,
    /// Measure generation in the sandbox and natively, and the time to load a plugin
    Bench {
        /// Run another benchmark
        #[command(subcommand)]
        what: Option<Bench>,
    },
    /// Feed generated input to every reader of untrusted bytes, longer than the tests do
    Fuzz {
        /// Only this target
        target: Option<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Measure the line coverage of host/api and host/render; fail if it is too low
    Coverage,
    /// Build every plugin to target/plugins/<name>.wasm
    Plugins {
        /// What to do with them
        #[command(subcommand)]
        what: Option<Plugins>,
    },
    /// Start or stop a control plane of the newest Kubernetes release, or print its variables
    ControlPlane {
        /// Action
        #[arg(value_enum)]
        action: Action,
    },
    /// Start or stop a cluster with a real node, on which pods run; needs root
    Node {
        /// Action
        #[arg(value_enum)]
        action: NodeAction,
    },
    /// Create the release archive with its SBOM, and the plugins as an OCI layout, in target/package
    Package {
        /// Pack this llsd binary instead of building one
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Build a static llsd binary for release, and print its path
    StaticBinary {
        /// The Rust target; that of this machine if it is left out
        #[arg(long, value_parser = static_binary::TARGETS, default_value = static_binary::THIS_MACHINE)]
        target: String,
    },
    /// Write the operator's container image as an OCI layout to target/image; needs no container engine
    Image {
        /// Use this static llsd binary instead of building one
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Make a release in target/dist: images, chart, plugins, archives, manifests, SBOMs, checksums
    Release(release::Options),
    /// Install the real server packages, and test the validator with them
    Oracle,
    /// Write the generated files
    Generate {
        /// Write nothing; fail if a file is out of date
        #[arg(long)]
        check: bool,
    },
}

impl Task {
    /// The name on the command line.
    fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Up { .. } => "up",
            Self::Test => "test",
            Self::Bench { .. } => "bench",
            Self::Fuzz { .. } => "fuzz",
            Self::Coverage => "coverage",
            Self::Plugins { .. } => "plugins",
            Self::ControlPlane { .. } => "control-plane",
            Self::Node { .. } => "node",
            Self::Package { .. } => "package",
            Self::StaticBinary { .. } => "static-binary",
            Self::Image { .. } => "image",
            Self::Release(_) => "release",
            Self::Oracle => "oracle",
            Self::Generate { .. } => "generate",
        }
    }

    /// The prerequisites of the task. Sizes were measured after a first run and rounded up.
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
        // Without root the node is simulated, or left out.
        let runs_node = Needs {
            packages: prerequisites::NODE,
            are_packages_optional: true,
            cache_gib: 12,
            ..runs_control_plane
        };
        match self {
            Self::Demo(Programs { built: true }) => Needs::default(),
            Self::Demo(_) | Self::Plugins { .. } | Self::Generate { .. } | Self::Package { .. } => {
                builds_adapters
            }
            Self::ControlPlane { .. } => runs_control_plane,
            Self::Up {
                simulated: true, ..
            } => runs_control_plane,
            Self::Up { .. } => runs_node,
            Self::Node { .. } => Needs {
                are_packages_optional: false,
                ..runs_node
            },
            Self::StaticBinary { .. }
            | Self::Image { binary: None }
            | Self::Bench { what: None } => Needs {
                rust_targets: &static_binary::TARGETS,
                python: true,
                cache_gib: 1,
                ..builds_adapters
            },
            Self::Image { binary: Some(_) } => builds_adapters,
            Self::Release(options) if options.is_verification() => Needs {
                are_packages_optional: false,
                python: true,
                ..runs_node
            },
            Self::Release(_) => Needs {
                rust_targets: &static_binary::TARGETS,
                python: true,
                go: true,
                target_gib: 9,
                cache_gib: 4,
                ..builds_adapters
            },
            Self::Bench { what: Some(_) } => Needs {
                rust_targets: &static_binary::TARGETS,
                python: true,
                target_gib: 6,
                ..runs_control_plane
            },
            Self::Fuzz { .. } => builds_adapters,
            Self::Coverage => Needs {
                components: &[LLVM_TOOLS],
                ..builds_adapters
            },
            Self::Test => Needs {
                components: &[RUSTFMT, CLIPPY],
                python: true,
                target_gib: 14,
                cache_gib: 24,
                packages: prerequisites::TESTS,
                are_packages_optional: !node::is_ci(),
                ..runs_node
            },
            Self::Oracle => Needs {
                python: true,
                cache_gib: 10,
                ..Needs::default()
            },
        }
    }
}

/// Options of `demo` and `up`.
#[derive(clap::Args)]
struct Programs {
    /// Use the programs of the last build instead of building
    #[arg(long)]
    built: bool,
}

#[derive(Subcommand)]
enum Plugins {
    /// Compare every plugin with that of the last release; fail if a difference is not explained
    Diff {
        /// The folder `plugins` of the last release archive
        #[arg(long, value_name = "FOLDER")]
        released: PathBuf,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Run all of them, for about 20 minutes, and print one table
    All {
        /// Options of the benchmark with many resources, as for `fleet`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measure the operator with many resources, on a new control plane
    Operator {
        /// Options of the benchmark: -n NUMBER, --generated, --rest SECONDS
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measure how the cost grows with the number of resources, on new control planes
    Fleet {
        /// Options of the benchmark: --sizes 100,1000,10000, --rest SECONDS, --soak MINUTES, --output DIR
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measure the latency of conversion and admission, on a new control plane
    Webhooks,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum NodeAction {
    /// Build the programs that are missing, start the node, and print its environment variables
    Up,
    /// Stop the node, and remove everything that it left behind
    Down,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Build the programs that are missing, and start the control plane
    Up,
    /// Stop the control plane
    Down,
    /// Print its environment variables
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
        Task::Up {
            programs: Programs { built },
            simulated,
        } => up::run(*built, *simulated),
        Task::Test => test::run(),
        Task::Bench { what: None } => bench::generation(&[]),
        Task::Bench {
            what: Some(Bench::All { options }),
        } => bench::all(options),
        Task::Bench {
            what: Some(Bench::Operator { options }),
        } => bench::operator(options),
        Task::Bench {
            what: Some(Bench::Fleet { options }),
        } => bench::fleet(options),
        Task::Bench {
            what: Some(Bench::Webhooks),
        } => bench::webhooks(&[]),
        Task::Fuzz { target, seconds } => fuzz::run(target.as_deref(), *seconds),
        Task::Coverage => coverage::run(),
        Task::Plugins { what: None } => artifacts::build()?.plugins().map(|_| ()),
        Task::Plugins {
            what: Some(Plugins::Diff { released }),
        } => {
            let cache = shell::cache()?;
            oracle::ensure_oracle(&cache)?;
            shell::build_llsd()?;
            artifacts::build()?.plugins_diff(released, &cache.join("oracle/bases"))
        }
        Task::ControlPlane { action } => {
            let cache = shell::cache()?;
            let testbed = control_plane::Testbed::build(&cache)?;
            match action {
                Action::Up => testbed.up(),
                Action::Down => testbed.down(),
                Action::Env => testbed.env(),
            }
        }
        Task::Node { action } => {
            let cache = shell::cache()?;
            let testbed = control_plane::Testbed::build(&cache)?;
            match action {
                NodeAction::Up => testbed.node_up(),
                NodeAction::Down => testbed.node_down(),
            }
        }
        Task::Package { binary } => {
            let binary = match binary {
                Some(binary) => binary.clone(),
                None => shell::build_release()?,
            };
            artifacts::build()?.package(&binary)
        }
        Task::StaticBinary { target } => {
            println!("{}", static_binary::build(target)?.display());
            Ok(())
        }
        Task::Image { binary } => image::run(binary.as_deref()),
        Task::Release(options) => release::run(options),
        Task::Oracle => oracle::selftest(&oracle::ensure_oracle(&shell::cache()?)?),
        Task::Generate { check } => {
            shell::build_llsd()?;
            artifacts::build()?.generate(*check)
        }
    }
}

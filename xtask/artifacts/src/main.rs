//! `xtask-artifacts`: the tasks that make files.
//!
//! `cargo xtask` runs this program after it has checked the prerequisites. It is a package of its
//! own because of its dependencies, which take longer to compile than xtask itself.

mod chart;
mod generate;
mod guests;
mod package;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Makes the files of this repository; call it through `cargo xtask`")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build every adapter to target/plugins/<name>.wasm
    Plugins,
    /// Make the release archive in target/package
    Package {
        /// The binary `llsd` to pack
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
    },
    /// Rewrite the generated files with the `llsd` that was built last
    Generate {
        /// Change nothing; fail on a difference
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    xtask::report::install_panic_message();
    xtask::report::exit_code(match Arguments::parse().task {
        Task::Plugins => guests::build_all().map(|_| ()),
        Task::Package { binary } => package::run(&binary),
        Task::Generate { check } => generate::run(check),
    })
}

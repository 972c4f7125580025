//! `cargo xtask <task>`: everything that is done to this repository, by hand or by CI.

mod demo;
mod generate;
mod guests;
mod shell;
mod test;

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
    Demo,
    /// Run every test; fetches and builds what it needs into a cache outside the checkout
    Test,
    /// Build every adapter to target/plugins/<name>.wasm
    Plugins,
    /// Rewrite the generated files; with --check, fail when one of them is out of date
    Generate {
        /// Change nothing; fail on a difference
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Demo => demo::run(),
        Task::Test => test::run(),
        Task::Plugins => guests::build_all().map(|_| ()),
        Task::Generate { check } => generate::run(check),
    }
}

//! `llsd plugin …`: what an author of schema adapters needs.

mod bench;
mod build;
mod compare;
mod conformance;
mod new;
mod run;

use crate::Verdict;

/// What to do with a plugin.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start a plugin crate from a template
    New(new::Arguments),
    /// Build a plugin crate and wrap it as a component without imports
    Build(build::Arguments),
    /// Call one function with JSON in and JSON out
    Run(run::Arguments),
    /// Run the conformance suite
    Test(conformance::Arguments),
    /// Measure latency and fuel, and compare with a saved baseline
    Bench(bench::Arguments),
    /// Compare two plugins over a folder of resources and bases
    Diff(compare::Arguments),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Published(crate::network::plugin::Command),
}

/// Does it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::New(arguments) => new::run(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => conformance::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Diff(arguments) => compare::run(arguments),
        #[cfg(feature = "network")]
        Command::Published(command) => crate::network::plugin::run(command),
    }
}

//! `llsd plugin …`: what an author of schema adapters needs.

mod artifact;
mod bench;
mod build;
mod compare;
mod conformance;
mod inspect;
mod new;
mod pull;
mod push;
mod run;
mod verify;

use crate::Verdict;

/// What to do with a plugin.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start a plugin crate from a template
    New(new::Arguments),
    /// Build a plugin crate and wrap it as a component without imports
    Build(build::Arguments),
    /// Show world, schemas, imports, size and digest
    Inspect(inspect::Arguments),
    /// Call one function with JSON in and JSON out
    Run(run::Arguments),
    /// Run the conformance suite
    Test(conformance::Arguments),
    /// Measure latency and fuel, and compare with a saved baseline
    Bench(bench::Arguments),
    /// Compare two plugins over a folder of resources and bases
    Diff(compare::Arguments),
    /// Publish a component to a registry, and prove that the operator can load it from there
    Push(push::Arguments),
    /// Fetch a component from a registry
    Pull(pull::Arguments),
    /// Check a published plugin as the operator does: digests, signatures, load rules
    Verify(verify::Arguments),
}

/// Does it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::New(arguments) => new::run(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => conformance::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Diff(arguments) => compare::run(arguments),
        Command::Push(arguments) => push::run(arguments),
        Command::Pull(arguments) => pull::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
    }
}

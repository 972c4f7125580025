//! `llsd plugin …`: what an author of schema adapters needs.

mod bench;
mod build;
mod compare;
mod conformance;
mod inspect;
mod new;
mod run;

use llsd_adapter_sdk::documents::json_schemas;

use crate::{Verdict, talk};

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
    /// Print the JSON Schemas of the contract's documents
    Schemas,
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
        Command::Schemas => schemas(),
    }
}

fn schemas() -> anyhow::Result<Verdict> {
    let all: serde_json::Map<String, serde_json::Value> =
        json_schemas().into_iter().map(|(shape, schema)| (shape.to_owned(), schema.into())).collect();
    talk::data(&serde_json::to_string_pretty(&all)?);
    Ok(Verdict::Done)
}

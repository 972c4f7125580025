//! `llsd plugin …` for plugins in a registry.

mod artifact;
mod inspect;
mod pull;
mod push;
mod verify;

use crate::Verdict;

/// What to do with a plugin that is, or will be, in a registry.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show world, schemas, imports, size and digest
    Inspect(inspect::Arguments),
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
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Push(arguments) => push::run(arguments),
        Command::Pull(arguments) => pull::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
    }
}

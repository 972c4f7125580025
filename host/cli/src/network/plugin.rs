//! `llsd plugin …`: the commands for plugins in a registry.

mod artifact;
mod documents;
mod inspect;
mod pull;
mod push;
mod rollback;
mod verify;

use crate::Exit;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show the world, schemas, imports, size and digest of a plugin
    Inspect(inspect::Arguments),
    /// Push a plugin to a registry, and check that the operator can load it
    Push(push::Arguments),
    /// Pull a plugin from a registry
    Pull(pull::Arguments),
    /// Verify a published plugin as the operator does: digests, signatures and load rules
    Verify(verify::Arguments),
    /// Use the previous version of a plugin in the cluster again
    Rollback(rollback::Arguments),
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Push(arguments) => push::run(arguments),
        Command::Pull(arguments) => pull::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Rollback(arguments) => rollback::run(arguments),
    }
}

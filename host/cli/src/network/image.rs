//! `llsd image …`: the commands for authors of distribution images.

mod inspect;
mod label;

use crate::Exit;

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what the operator reads from an image: configuration, schema, plugin and user
    Inspect(inspect::Arguments),
    /// Add a configuration to a copy of an image as labels; layers are not changed
    Label(label::Arguments),
}

/// Runs a command.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Label(arguments) => label::run(arguments),
    }
}

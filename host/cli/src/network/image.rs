//! `llsd image …`: what makers of distribution images need.

mod inspect;
mod label;

use crate::Verdict;

/// What to do with an image.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what the operator would read from an image: configuration, schema, plugin, user
    Inspect(inspect::Arguments),
    /// Put a configuration onto a copy of an image as labels; layers stay as they are
    Label(label::Arguments),
}

/// Does it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Label(arguments) => label::run(arguments),
    }
}

//! `llsd completions` and `llsd man`: shell completions and manual pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::{Exit, output};

/// Arguments of `completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to write completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// Directory to write a page for every command to; by default the page of llsd is printed
    folder: Option<PathBuf>,
}

/// Prints the completion script for a shell.
pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "llsd", &mut script);
    output::print(&String::from_utf8(script)?);
    Ok(Exit::Success)
}

/// Prints the page of `llsd`, or writes the pages of all commands to a directory.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> anyhow::Result<Exit> {
    match &arguments.folder {
        Some(folder) => clap_mangen::generate_to(command, folder)
            .with_context(|| format!("failed to write manual pages to {}", folder.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            output::print(&String::from_utf8(page)?);
        }
    }
    Ok(Exit::Success)
}

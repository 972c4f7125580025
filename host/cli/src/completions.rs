//! `llsd completions` and `llsd man`: what a shell and a reader want to know of the command line.

use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::{Verdict, talk};

/// For which shell.
#[derive(clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where pages go.
#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// Write a page for every command into this folder; by default print the page of llsd itself
    folder: Option<PathBuf>,
}

/// Prints the script for one shell.
pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "llsd", &mut script);
    talk::data(&String::from_utf8(script)?);
    Ok(Verdict::Done)
}

/// Prints one page, or writes all of them.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> anyhow::Result<Verdict> {
    match &arguments.folder {
        Some(folder) => clap_mangen::generate_to(command, folder)
            .with_context(|| format!("cannot write into {}", folder.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            talk::data(&String::from_utf8(page)?);
        }
    }
    Ok(Verdict::Done)
}

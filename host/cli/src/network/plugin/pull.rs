//! `llsd plugin pull`: a component from a registry into a file.

use std::path::PathBuf;

use anyhow::Context;
use llsd_registry::Reference;

use super::artifact;
use crate::Verdict;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::talk::Output;

/// Which plugin, and where to.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The plugin
    reference: Reference,
    /// The file to write
    file: PathBuf,
    /// How to say what was fetched
    #[arg(long, short, value_enum, default_value_t = Output::Human)]
    output: Output,
    #[command(flatten)]
    signatures: SignatureOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Exit 1 when it is no plugin, or not signed as wanted; nothing is written then.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let Arguments {
        reference, file, ..
    } = arguments;
    let client = Client::new(&arguments.registries, reference)?;
    let pulled = artifact::pull(&client, reference, &arguments.signatures)?;
    std::fs::write(file, &pulled.bytes)
        .with_context(|| format!("could not write {}", file.display()))?;
    artifact::say(arguments.output, reference, &pulled)?;
    Ok(Verdict::Done)
}

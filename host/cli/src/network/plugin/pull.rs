//! `llsd plugin pull`: downloads a plugin from a registry to a file.

use std::path::PathBuf;

use llsd_registry::Reference;

use super::artifact;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::output::OutputFormat;
use crate::{Exit, files, plugin_loader};

/// Arguments of `plugin pull`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Reference of the plugin
    reference: Reference,
    /// File to write the component to
    file: PathBuf,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    signatures: SignatureOptions,
    #[command(flatten)]
    limits: plugin_loader::LimitOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Rejects, without writing a file, if the artifact is not a plugin or lacks a required signature.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments {
        reference, file, ..
    } = arguments;
    let client = Client::new(&arguments.registries, reference)?;
    let pulled = artifact::pull(
        &client,
        reference,
        &arguments.signatures,
        &arguments.limits.read()?,
    )?;
    files::write(file, &pulled.bytes)?;
    artifact::print(arguments.output, reference, &pulled)?;
    Ok(Exit::Success)
}

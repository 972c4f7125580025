//! `llsd plugin verify`: checks whether the operator would accept a published plugin.

use llsd_registry::Reference;

use super::artifact;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::output::OutputFormat;
use crate::{Exit, plugin_loader};

/// Arguments of `plugin verify`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Reference of the plugin
    reference: Reference,
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

/// Rejects if a required signature is missing or a load rule is violated.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let reference = &arguments.reference;
    let client = Client::new(&arguments.registries, reference)?;
    let limits = arguments.limits.read()?;
    let host = arguments.limits.host()?;
    let loaded =
        artifact::pull_and_load(&client, &host, reference, &arguments.signatures, &limits)?;
    artifact::print(arguments.output, reference, &loaded.pulled)?;
    Ok(Exit::Success)
}

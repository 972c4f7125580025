//! `llsd plugin verify`: whether the operator would take a published plugin.

use llsd_registry::Reference;

use super::artifact;
use crate::network::registry::{Client, RegistryOptions, SignatureOptions};
use crate::talk::Output;
use crate::{Verdict, adapters};

/// Which plugin.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The plugin
    reference: Reference,
    /// How to say it
    #[arg(long, short, value_enum, default_value_t = Output::Human)]
    output: Output,
    #[command(flatten)]
    signatures: SignatureOptions,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Exit 1 when it is not signed as wanted, or breaks a load rule.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let reference = &arguments.reference;
    let client = Client::new(&arguments.registries, reference)?;
    let host = adapters::host()?;
    let loaded = artifact::fetch(&client, &host, reference, &arguments.signatures)?;
    artifact::say(arguments.output, reference, &loaded.pulled)?;
    Ok(Verdict::Done)
}

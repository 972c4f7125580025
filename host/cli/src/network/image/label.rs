//! `llsd image label`: adds a configuration to an image as labels, and reads it back as the operator
//! does.

use std::path::PathBuf;

use anyhow::Context;
use llsd_registry::{Labelled, Labelling, Reference};
use llsd_render::yaml;
use serde_json::json;

use crate::network::registry::{Client, RegistryOptions};
use crate::output::{self, OutputFormat};
use crate::progress::Progress;
use crate::{Exit, files};

/// Arguments of `image label`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Image to label
    image: Reference,
    /// Server configuration, the same file as in the image
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Dialect of the configuration, for example llama-stack/0.7
    #[arg(long, value_name = "ID")]
    schema: Option<String>,
    /// Plugin to propose for the configuration
    #[arg(long, value_name = "REF")]
    plugin: Option<Reference>,
    /// Tag of the labelled image, in the same repository
    #[arg(long, value_name = "NEW")]
    tag: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Rejects if the configuration does not fit the image.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = &arguments.config;
    let text = files::text(path)?;
    let config = yaml::read(&text)
        .with_context(|| format!("{} is not a server configuration", path.display()))?;
    let labelling = Labelling {
        version: config.get("version").map(ToString::to_string),
        schema: arguments.schema.clone(),
        plugin: arguments.plugin.as_ref().map(ToString::to_string),
        config: text.into_bytes(),
    };
    let client = Client::new(&arguments.registries, &arguments.image)?;
    let progress = Progress::new(&format!("labelling {}", arguments.image));
    let Labelled {
        reference,
        digest,
        scheme,
        base,
    } = client.block_on(client.registry.label_image(
        &arguments.image,
        &arguments.tag,
        &labelling,
        &client.keyring,
    ))?;
    drop(progress);
    match arguments.output {
        OutputFormat::Human => {
            output::print(&format!("{reference}@{digest}"));
            output::print_note(&format!(
                "read back {}, {} bytes, label scheme {}",
                base.source,
                base.yaml.len(),
                scheme.as_str()
            ));
        }
        OutputFormat::Json => output::print(&serde_json::to_string_pretty(&json!({
            "reference": reference.to_string(),
            "digest": digest.to_string(),
            "scheme": scheme.as_str(),
            "source": base.source,
            "size": base.yaml.len(),
        }))?),
    }
    Ok(Exit::Success)
}

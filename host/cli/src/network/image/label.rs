//! `llsd image label`: puts a configuration onto an image, and reads it back as the operator will.

use std::path::PathBuf;

use anyhow::Context;
use llsd_registry::{Labelled, Labelling, Reference};
use llsd_render::yaml;
use serde_json::json;

use crate::network::registry::{Client, RegistryOptions};
use crate::talk::{self, Output};
use crate::{Verdict, files};

/// What to label, and with what.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The image to start from
    image: Reference,
    /// The server's configuration, as it lies in the image
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The dialect of the configuration, for example llama-stack/0.7
    #[arg(long, value_name = "ID")]
    schema: Option<String>,
    /// The plugin to propose for it
    #[arg(long, value_name = "REF")]
    plugin: Option<Reference>,
    /// The tag to write, in the same repository
    #[arg(long, value_name = "NEW")]
    tag: String,
    /// How to say what was done
    #[arg(long, short, value_enum, default_value_t = Output::Human)]
    output: Output,
    #[command(flatten)]
    registries: RegistryOptions,
}

/// Exit 1 when the configuration cannot be put onto this image.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let path = &arguments.config;
    let text = files::text(path)?;
    let config = yaml::read(&text)
        .with_context(|| format!("{} is no server configuration", path.display()))?;
    let labelling = Labelling {
        version: config.get("version").map(ToString::to_string),
        schema: arguments.schema.clone(),
        plugin: arguments.plugin.as_ref().map(ToString::to_string),
        config: text.into_bytes(),
    };
    let client = Client::new(&arguments.registries, &arguments.image)?;
    talk::remark(&format!("labelling {}", arguments.image));
    let Labelled {
        reference,
        digest,
        scheme,
        base,
    } = client.wait(client.registry.label_image(
        &arguments.image,
        &arguments.tag,
        &labelling,
        &client.keyring,
    ))?;
    match arguments.output {
        Output::Human => {
            talk::data(&format!("{reference}@{digest}"));
            talk::remark(&format!(
                "read back: {}, {} bytes, by {}",
                base.source,
                base.yaml.len(),
                scheme.as_str()
            ));
        }
        Output::Json => talk::data(&serde_json::to_string_pretty(&json!({
            "reference": reference.to_string(),
            "digest": digest.to_string(),
            "scheme": scheme.as_str(),
            "source": base.source,
            "size": base.yaml.len(),
        }))?),
    }
    Ok(Verdict::Done)
}

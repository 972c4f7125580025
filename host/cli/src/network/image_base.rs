//! `--image`: a base configuration from the labels of an image.

use anyhow::Context;
use llsd_adapter_sdk::documents::Hints;
use llsd_registry::Reference;
use llsd_render::yaml;

use crate::generation::GivenBase;
use crate::network::registry::{Client, RegistryOptions};
use crate::talk;

/// Which image, and how to reach its registry.
#[derive(clap::Args)]
pub(crate) struct ImageOptions {
    /// Take the base configuration, and what is known about it, from an image's labels
    #[arg(long, value_name = "REF", conflicts_with = "base_config")]
    image: Option<Reference>,
    #[command(flatten)]
    registries: RegistryOptions,
}

impl ImageOptions {
    /// The base inside the image that the options name, read as the operator reads it.
    pub(crate) fn base(&self) -> anyhow::Result<Option<GivenBase>> {
        let Some(image) = &self.image else {
            return Ok(None);
        };
        let client = Client::new(&self.registries, image)?;
        talk::remark(&format!("reading {image}"));
        let base = client.wait(client.registry.base_config(image, &client.keyring))?;
        let config = yaml::read(&base.yaml)
            .with_context(|| format!("{image}: {} is no server configuration", base.source))?;
        Ok(Some(GivenBase {
            config,
            hints: Hints {
                labels: base.hints.clone(),
                schema: base.schema.clone(),
                server_version: base.server_version.clone(),
            },
        }))
    }
}

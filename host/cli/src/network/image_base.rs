//! `--image`: reads the base configuration from the labels of an image.

use anyhow::Context;
use llsd_registry::Reference;
use llsd_render::yaml;

use crate::generation::LoadedBase;
use crate::network::registry::{Client, RegistryOptions};
use crate::progress::Progress;

/// Options that select an image and its registry.
#[derive(clap::Args)]
pub(crate) struct ImageOptions {
    /// Image to read the base configuration and its schema from
    #[arg(long, value_name = "REF", conflicts_with = "base_config")]
    image: Option<Reference>,
    #[command(flatten)]
    registries: RegistryOptions,
}

impl ImageOptions {
    /// Reads the base configuration of `--image`, if set, as the operator does.
    pub(crate) fn base(&self) -> anyhow::Result<Option<LoadedBase>> {
        self.image
            .as_ref()
            .map(|image| self.read(image))
            .transpose()
    }

    /// Reads the base configuration of an image, as the operator does.
    pub(crate) fn read(&self, image: &Reference) -> anyhow::Result<LoadedBase> {
        let client = Client::new(&self.registries, image)?;
        let _progress = Progress::new(&format!("reading {image}"));
        let base = client.block_on(client.registry.base_config(image, &client.keyring))?;
        let config = yaml::read(&base.yaml)
            .with_context(|| format!("{image}: {} is not a server configuration", base.source))?;
        Ok(LoadedBase {
            config,
            hints: llsd_controller::image_hints(&base),
            image_variables: base.variables.clone(),
        })
    }
}

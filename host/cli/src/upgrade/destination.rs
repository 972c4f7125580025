//! The release that resources move to.

use anyhow::{Context, bail};
use llsd_adapter_sdk::Release;
use llsd_render::adapter::Adapter;
use llsd_render::{schema_of_base, schema_of_release, served_schemas};

use super::Arguments;
use crate::generation::LoadedBase;

/// The release to move to.
pub(super) struct Destination {
    pub(super) schema: String,
    pub(super) image: Option<String>,
    /// The base configuration of `--to-base-config`, or of the image.
    pub(super) base: Option<LoadedBase>,
}

impl Destination {
    /// A dialect, with the base configurations that are built in.
    pub(super) fn dialect(schema: &str) -> Self {
        Self {
            schema: schema.to_owned(),
            image: None,
            base: None,
        }
    }

    /// Reads `--to`: a dialect, a release or an image.
    pub(super) fn find(arguments: &Arguments, adapters: &[&dyn Adapter]) -> anyhow::Result<Self> {
        let given = arguments.to_base_config.as_deref();
        let given = given.map(LoadedBase::from_file).transpose()?;
        let to = arguments.to.as_str();
        let served = served_schemas(adapters);
        let plain = to.trim_start_matches("ogx-").trim_start_matches("ogx ");
        let schema = if served.iter().any(|schema| schema == to) {
            Some(to.to_owned())
        } else if !to.contains(['/', ':']) && Release::parse(plain).is_some() {
            schema_of_release(adapters, plain)
        } else {
            None
        };
        if let Some(schema) = schema {
            return Ok(Self {
                schema,
                image: None,
                base: given,
            });
        }
        if !to.contains('/') || (!to.contains(':') && !to.contains('@')) {
            bail!(
                "--to: {to:?} is not a release that a plugin serves; use one of: {}; or an image with its tag",
                served.join(", ")
            );
        }
        let base = match given {
            Some(base) => base,
            None => image_base(arguments, to)?,
        };
        let choice = schema_of_base(adapters, &base.config, &base.hints).with_context(|| {
            format!("--to: failed to find the dialect of {to}; pass a dialect instead")
        })?;
        Ok(Self {
            schema: choice.id,
            image: Some(to.to_owned()),
            base: Some(base),
        })
    }

    /// As the report names it.
    pub(super) fn name(&self) -> String {
        match &self.image {
            Some(image) => format!("{} ({image})", self.schema),
            None => self.schema.clone(),
        }
    }
}

#[cfg(feature = "network")]
fn image_base(arguments: &Arguments, image: &str) -> anyhow::Result<LoadedBase> {
    let reference: llsd_registry::Reference = image
        .parse()
        .with_context(|| format!("--to: {image:?} is not a valid image reference"))?;
    arguments.generation.image.read(&reference)
}

#[cfg(not(feature = "network"))]
fn image_base(_: &Arguments, image: &str) -> anyhow::Result<LoadedBase> {
    bail!("this build cannot read {image}; pass its base configuration with --to-base-config")
}

//! Reports what the operator reads from an image.

use crate::base_config::{self, BaseConfig, read_base};
use crate::client::Registry;
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::manifest::Platform;
use crate::opened_image::open_image;
use crate::reference::Reference;

/// What the operator reads from an image.
#[derive(Clone, Debug)]
pub struct ImageReport {
    /// The digest that the reference resolved to.
    pub image_digest: Digest,
    /// The digest of the manifest for the platform of this machine.
    pub manifest_digest: Digest,
    /// The platforms of the index; empty if the reference is a manifest.
    pub platforms: Vec<Platform>,
    /// The base configuration, or why it cannot be read.
    pub base: Result<BaseConfig, base_config::Error>,
}

impl Registry {
    /// Reads an image as the operator does, without the caches of tags and base configurations.
    pub async fn inspect_image(
        &self,
        image: &Reference,
        keyring: &Keyring,
    ) -> Result<ImageReport, base_config::Error> {
        let inner = &self.inner;
        let located = inner.locate(image, keyring)?;
        let written = image.to_string();
        let inspection = async {
            let digest = inner.resolve(&located).await?;
            let opened = open_image(inner, &located, &digest, &written).await?;
            let base = read_base(inner, &opened, &written).await;
            Ok(ImageReport {
                image_digest: opened.image_digest,
                manifest_digest: opened.manifest_digest,
                platforms: opened.platforms,
                base,
            })
        };
        inner.within_deadline(&written, inspection).await
    }
}

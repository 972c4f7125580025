//! Reads one file of an image, from the topmost layer that contains it.
//!
//! In: an image reference, a path and the credentials to try. Out: the content of the file. Whiteouts
//! are ignored: a file that an upper layer deletes is found in the lower layer.

use std::sync::Arc;

use crate::base_config;
use crate::client::{Inner, Located, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::layer::{self, LayerPath};
use crate::opened_image::{OpenedImage, open_image, read_file};
use crate::reference::Reference;

/// Why a file cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] base_config::Error),
    /// No layer contains it.
    #[error("image {image} has no file {path:?}{}", skipped(*unsearched))]
    Absent {
        /// The image as the user wrote it.
        image: String,
        /// The path.
        path: String,
        /// The number of layers that are too large to be searched.
        unsearched: usize,
    },
}

impl Error {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Image(error) if error.is_transient())
    }
}

fn skipped(layers: usize) -> String {
    match layers {
        0 => String::new(),
        layers => format!("; {layers} layers are too large to be searched"),
    }
}

impl Registry {
    /// Reads one file of an image. Known digests come from the caches; a tag is resolved at most once
    /// per [`crate::Settings::tag_ttl`].
    pub async fn image_file(
        &self,
        image: &Reference,
        path: &str,
        keyring: &Keyring,
    ) -> Result<Arc<[u8]>, Error> {
        let absent = || Error::Absent {
            image: image.to_string(),
            path: path.to_owned(),
            unsearched: 0,
        };
        let layer_path = LayerPath::parse(path).ok_or_else(absent)?;
        let located = self
            .inner
            .locate(image, keyring)
            .map_err(base_config::Error::from)?;
        let located = Arc::new(located);
        let digest = self.inner.current_digest(&located).await;
        let digest = digest.map_err(base_config::Error::from)?;
        let scope = self.inner.scope(&located.target.name());
        let cache_key = (scope, digest.clone(), path.to_owned());
        if let Some(known) = self.inner.file_cache.get(&cache_key) {
            let access = self.inner.check_access(&located, &digest).await;
            access.map_err(base_config::Error::from)?;
            return Ok(known);
        }
        let key = (located.key(), digest.clone(), path.to_owned());
        let (inner, written) = (Arc::clone(&self.inner), image.to_string());
        let read = self.inner.file_fetches.run(key, || {
            let (inner, located) = (Arc::clone(&inner), Arc::clone(&located));
            let (digest, layer_path, written) =
                (digest.clone(), layer_path.clone(), written.clone());
            async move { fetch(&inner, &located, &digest, &layer_path, &written).await }
        });
        let content = read.await?;
        self.inner
            .file_cache
            .insert(cache_key, Arc::clone(&content));
        Ok(content)
    }
}

async fn fetch(
    inner: &Arc<Inner>,
    located: &Located,
    digest: &Digest,
    path: &LayerPath,
    image: &str,
) -> Result<Arc<[u8]>, Error> {
    let read = async {
        let opened = open_image(inner, located, digest, image).await?;
        read_topmost(inner, &opened, path, image).await
    };
    let (content, unsearched) = inner.within_deadline(image, read).await?;
    content.map(Arc::from).ok_or_else(|| Error::Absent {
        image: image.to_owned(),
        path: format!("/{}", path.as_str()),
        unsearched,
    })
}

/// The content of the file in the topmost layer that contains it, and the number of layers above it that
/// are too large to be searched.
async fn read_topmost(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    path: &LayerPath,
    image: &str,
) -> Result<(Option<Vec<u8>>, usize), base_config::Error> {
    let mut unsearched = 0;
    for layer in opened.manifest.layers.iter().rev() {
        match read_file(inner, opened, layer, path, image).await {
            Ok(None) => {}
            Ok(content) => return Ok((content, unsearched)),
            Err(
                base_config::Error::Registry(RegistryError::TooLarge { .. })
                | base_config::Error::Layer {
                    source: layer::Error::UnpacksTooLarge(_),
                    ..
                },
            ) => unsearched += 1,
            Err(error) => return Err(error),
        }
    }
    Ok((None, unsearched))
}

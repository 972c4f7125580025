//! Reads one file out of an image, from the topmost layer that holds it.
//!
//! In: an image reference, a path and the credentials to try. Out: the file, which is small and known
//! by its path. A file that an upper layer deletes is found all the same: nobody ships what is to be
//! read and takes it away again.

use std::sync::Arc;

use crate::base::{self, OpenImage, file_of, open_image};
use crate::client::{Inner, Located, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::layer::{self, LayerPath};
use crate::reference::Reference;

/// Why there is no file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The image could not be read.
    #[error(transparent)]
    Image(#[from] base::Error),
    /// No layer holds it.
    #[error("{image} has no file {path}{}", but_for(*unsearched))]
    Absent {
        /// The image as the user wrote it.
        image: String,
        /// The path that was looked for.
        path: String,
        /// Layers that are too large to be searched.
        unsearched: usize,
    },
}

impl Error {
    /// Whether the same request may well succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Image(error) if error.is_transient())
    }
}

fn but_for(layers: usize) -> String {
    match layers {
        0 => String::new(),
        layers => format!(", unless in one of {layers} layers that are too large to be searched"),
    }
}

impl Registry {
    /// One file of an image. Known digests are answered from memory or disk; tags are resolved at most
    /// once per [`crate::Settings::tag_ttl`].
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
        let wanted = LayerPath::parse(path).ok_or_else(absent)?;
        let located = self
            .inner
            .locate(image, keyring)
            .map_err(base::Error::from)?;
        let located = Arc::new(located);
        let digest = self.inner.current_digest(&located).await;
        let digest = digest.map_err(base::Error::from)?;
        let scope = self.inner.scope(&located.target.name());
        let kept_as = (scope, digest.clone(), path.to_owned());
        if let Some(known) = self.inner.files.get(&kept_as) {
            let access = self.inner.check_access(&located, &digest).await;
            access.map_err(base::Error::from)?;
            return Ok(known);
        }
        let key = (located.key(), digest.clone(), path.to_owned());
        let (inner, written) = (Arc::clone(&self.inner), image.to_string());
        let read = self.inner.file_flights.join(key, || {
            let (inner, located) = (Arc::clone(&inner), Arc::clone(&located));
            let (digest, wanted, written) = (digest.clone(), wanted.clone(), written.clone());
            async move { fetch(&inner, &located, &digest, &wanted, &written).await }
        });
        let content = read.await?;
        self.inner.files.put(kept_as, Arc::clone(&content));
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
        topmost(inner, &opened, path, image).await
    };
    let (content, unsearched) = inner.within_deadline(image, read).await?;
    content.map(Arc::from).ok_or_else(|| Error::Absent {
        image: image.to_owned(),
        path: format!("/{}", path.as_str()),
        unsearched,
    })
}

/// The file, and how many layers above it are too large to be searched.
async fn topmost(
    inner: &Arc<Inner>,
    opened: &OpenImage,
    path: &LayerPath,
    image: &str,
) -> Result<(Option<Vec<u8>>, usize), base::Error> {
    let mut unsearched = 0;
    for layer in opened.manifest.layers.iter().rev() {
        match file_of(inner, opened, layer, path, image).await {
            Ok(None) => {}
            Ok(content) => return Ok((content, unsearched)),
            Err(
                base::Error::Registry(RegistryError::TooLarge { .. })
                | base::Error::Layer {
                    source: layer::Error::UnpacksTooLarge(_),
                    ..
                },
            ) => unsearched += 1,
            Err(error) => return Err(error),
        }
    }
    Ok((None, unsearched))
}

//! An image opened for reading: its manifest and config, and files of its layers.

use std::sync::Arc;

use futures::FutureExt as _;

use crate::base_config::Error;
use crate::client::{Inner, Located};
use crate::digest::Digest;
use crate::error::shortened;
use crate::layer::{self, FileQuery, Found, LayerPath, ScanLimits};
use crate::manifest::{Descriptor, Document, ImageConfig, Manifest, Platform};
use crate::session::Session;

/// The deepest nesting of indexes that is followed. Real images have an index or none.
const MAX_INDEX_DEPTH: usize = 2;
/// The longest chain of hard links that is followed.
const MAX_LINKS: usize = 4;

/// An image with its manifest and config blob.
pub(crate) struct OpenedImage {
    pub(crate) session: Arc<Session>,
    pub(crate) repository: String,
    pub(crate) image_digest: Digest,
    pub(crate) manifest_digest: Digest,
    pub(crate) manifest: Manifest,
    pub(crate) config: ImageConfig,
    /// Platforms of the index; empty if the reference is a manifest.
    pub(crate) platforms: Vec<Platform>,
}

/// Reads the index, the manifest for the platform, and its config.
pub(crate) async fn open_image(
    inner: &Arc<Inner>,
    located: &Located,
    digest: &Digest,
    image: &str,
) -> Result<OpenedImage, Error> {
    let not_an_image = |problem: String| Error::NotAnImage {
        image: image.to_owned(),
        problem,
    };
    let repository = located.target.repository().to_owned();
    let (session, mut bytes) = inner.first_manifest(located, digest).await?;
    let mut manifest_digest = digest.clone();
    let mut platforms = Vec::new();
    for _ in 0..=MAX_INDEX_DEPTH {
        match Document::parse(&bytes).map_err(not_an_image)? {
            Document::Manifest(manifest) => {
                if !manifest.is_image() {
                    let kind = &manifest.config.media_type;
                    return Err(not_an_image(format!("its config has media type {kind:?}")));
                }
                let limit = inner.settings.limits.config_bytes;
                let blob = inner
                    .blob(&session, &repository, &manifest.config, limit)
                    .await?;
                let config = serde_json::from_slice(&blob).map_err(|error| {
                    not_an_image(shortened(format!("its config is invalid: {error}")))
                })?;
                return Ok(OpenedImage {
                    session,
                    repository,
                    image_digest: digest.clone(),
                    manifest_digest,
                    manifest: *manifest,
                    config,
                    platforms,
                });
            }
            Document::Index(index) => {
                let requested = &inner.settings.platform;
                platforms.extend(index.manifests.iter().filter_map(|d| d.platform.clone()));
                let chosen = index.choose(requested).ok_or_else(|| {
                    let Platform { os, architecture } = requested;
                    not_an_image(format!("its index has no manifest for {os}/{architecture}"))
                })?;
                manifest_digest = chosen.digest.clone();
                bytes = inner
                    .manifest(&session, &repository, &manifest_digest)
                    .await?;
            }
        }
    }
    Err(not_an_image("its index contains only indexes".to_owned()))
}

/// Finds a layer by its digest, or by the digest of its uncompressed content (`diff_id`). Tools that
/// recompress layers change the first and keep the second.
pub(crate) fn find_layer<'a>(
    opened: &'a OpenedImage,
    requested: &Digest,
) -> Option<&'a Descriptor> {
    let layers = &opened.manifest.layers;
    let by_diff_id = || {
        let ids = &opened.config.rootfs.as_ref()?.diff_ids;
        let index = ids.iter().position(|id| *id == requested.to_string())?;
        (ids.len() == layers.len())
            .then(|| layers.get(index))
            .flatten()
    };
    layers
        .iter()
        .find(|layer| layer.digest == *requested)
        .or_else(by_diff_id)
}

/// The entry of the disk cache that stores the folder of the server package. It cannot be the path of a
/// file in the layer, which never starts with a slash.
const SERVER_PACKAGE: &str = "/server-package";

/// Reads the server's configuration from a layer, and the folder that records the server package if the
/// layer contains it.
pub(crate) async fn read_config(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    layer: &Descriptor,
    path: &LayerPath,
    image: &str,
) -> Result<Option<(Vec<u8>, Option<String>)>, Error> {
    let scope = inner.scope(&opened.session.name_of(&opened.repository));
    let cached = async |path: &str| inner.disk_cache.file(&scope, &layer.digest, path).await;
    // An earlier release cached the file without the folder, so that the layer is read again.
    if let Some(folder) = cached(SERVER_PACKAGE).await
        && let Some(content) = cached(path.as_str()).await
    {
        let folder = String::from_utf8(folder).ok();
        return Ok(Some((content, folder.filter(|folder| !folder.is_empty()))));
    }
    let Some((content, folder)) = search_file(inner, opened, layer, path, image).await? else {
        return Ok(None);
    };
    let recorded = folder.as_deref().unwrap_or_default().as_bytes();
    inner
        .disk_cache
        .put_file(&scope, &layer.digest, SERVER_PACKAGE, recorded)
        .await;
    Ok(Some((content, folder)))
}

/// Reads a file of a layer, from the disk cache or the registry.
pub(crate) async fn read_file(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    layer: &Descriptor,
    path: &LayerPath,
    image: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let scope = inner.scope(&opened.session.name_of(&opened.repository));
    if let Some(content) = inner
        .disk_cache
        .file(&scope, &layer.digest, path.as_str())
        .await
    {
        return Ok(Some(content));
    }
    let found = search_file(inner, opened, layer, path, image).await?;
    Ok(found.map(|(content, _)| content))
}

/// Reads a file of a layer from the registry and caches it. Follows hard links inside the layer. Also
/// returns the folder that records the server package.
async fn search_file(
    inner: &Arc<Inner>,
    opened: &OpenedImage,
    layer: &Descriptor,
    path: &LayerPath,
    image: &str,
) -> Result<Option<(Vec<u8>, Option<String>)>, Error> {
    let scope = inner.scope(&opened.session.name_of(&opened.repository));
    let OpenedImage {
        session,
        repository,
        ..
    } = opened;
    let mut query_path = path.clone();
    for _ in 0..MAX_LINKS {
        let query = FileQuery::Path(query_path);
        match search_layer(inner, session, repository, layer, &query, image).await? {
            Found::File {
                content,
                server_package,
                ..
            } => {
                inner
                    .disk_cache
                    .put_file(&scope, &layer.digest, path.as_str(), &content)
                    .await;
                return Ok(Some((content, server_package)));
            }
            Found::HardLink(target) => query_path = target,
            Found::Nothing => return Ok(None),
        }
    }
    Ok(None)
}

/// Searches one layer in one pass.
pub(crate) async fn search_layer(
    inner: &Inner,
    session: &Session,
    repository: &str,
    layer: &Descriptor,
    query: &FileQuery,
    image: &str,
) -> Result<Found, Error> {
    let limits = inner.settings.limits;
    let scan_limits = ScanLimits {
        unpacked_bytes: limits.unpacked_bytes,
        file_bytes: limits.base_bytes,
    };
    let search = async || {
        let permit = inner.scans.acquire(session.registry()).await;
        let blob = session
            .open_blob(repository, layer, limits.layer_bytes)
            .await?;
        layer::scan_blob(blob, query, scan_limits, permit).await
    };
    session
        .retrying(|| search().boxed())
        .await?
        .map_err(|source| Error::Layer {
            image: image.to_owned(),
            layer: layer.digest.clone(),
            source,
        })
}

//! Reads a distribution's base configuration out of its image.
//!
//! In: an image reference and the credentials to try. Out: the configuration text and everything the
//! labels say about it. Only the manifest and the config blob are read, and one layer when a label says
//! that the file is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;

use crate::client::{Inner, Located, Registry};
use crate::credentials::{self, Keyring};
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::labels::{self, Scheme, Source};
use crate::layer::{self, Caps, Found, LayerPath, Wanted};
use crate::manifest::{Descriptor, Document, ImageConfig, Manifest, Platform};
use crate::reference::{ParseReferenceError, Reference};
use crate::session::Session;

/// An index inside an index inside an index is nobody's image.
const MAX_INDEX_DEPTH: usize = 2;
/// A hard link to a hard link to a hard link may be followed, not more.
const MAX_LINKS: usize = 4;

/// What an image says about its server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseConfig {
    /// The configuration file.
    pub yaml: String,
    /// Its digest.
    pub config_digest: Digest,
    /// What the reference pointed to: a manifest or an index.
    pub image_digest: Digest,
    /// The manifest that was read, for one platform.
    pub manifest_digest: Digest,
    /// By which labels it was found.
    pub scheme: Scheme,
    /// The label, or the layer and path, it was read from.
    pub source: String,
    /// Label `io.llamastack.config.schema`.
    pub schema: Option<String>,
    /// Label `io.llamastack.config.version`.
    pub config_version: Option<String>,
    /// The server's release, from a label of the published schemes.
    pub server_version: Option<String>,
    /// Label `io.llamastack.config.plugin`: a proposal, which only a policy can accept.
    pub plugin: Option<String>,
    /// The user the image runs as, as written in its config; `None` is root.
    pub user: Option<String>,
    /// Labels that may help to recognise the schema, without the files some of them carry.
    pub hints: BTreeMap<String, String>,
}

/// Why there is no base configuration.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The reference, as rewritten by a mirror, is not one.
    #[error("the mirror settings turn the image into something that is no reference")]
    Mirror(#[from] ParseReferenceError),
    /// A pull secret cannot be used.
    #[error("the credentials for the image cannot be used")]
    Credentials(#[from] credentials::Error),
    /// The registry could not be read.
    #[error("the image could not be read from its registry")]
    Registry(#[from] RegistryError),
    /// The text of FR-027e, word for word.
    #[error(
        "Distribution image {image} missing config labels. Add labels using `crane mutate` or use `overrideConfig` to \
         provide configuration manually. See docs/configuration.md for details."
    )]
    MissingConfigLabels {
        /// The image as the user wrote it.
        image: String,
    },
    /// A label is there and cannot be used.
    #[error("image {image}, label {label}: {problem}; {fix}")]
    BadLabel {
        /// The image as the user wrote it.
        image: String,
        /// Which label.
        label: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// The reference leads to something that is not a container image.
    #[error(
        "{image} is not a container image: {problem}; use the reference of a distribution image"
    )]
    NotAnImage {
        /// The image as the user wrote it.
        image: String,
        /// What it is.
        problem: String,
    },
    /// The layer named by the label could not be searched.
    #[error("image {image}, layer {layer}: the configuration could not be taken from it")]
    Layer {
        /// The image as the user wrote it.
        image: String,
        /// Which layer.
        layer: Digest,
        /// What is wrong with it.
        #[source]
        source: layer::Error,
    },
}

impl Error {
    /// The reason for the condition `ConfigGenerated=False`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Mirror(_) => "BadMirror",
            Self::Credentials(_) => "BadPullSecret",
            Self::Registry(error) => error.reason(),
            Self::MissingConfigLabels { .. } => "MissingConfigLabels",
            Self::BadLabel { .. } => "BadConfigLabel",
            Self::NotAnImage { .. } => "NotAnImage",
            Self::Layer { .. } => "BadConfigLayer",
        }
    }

    /// Whether the same request may well succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Registry(error) if error.is_transient())
    }
}

impl Registry {
    /// The base configuration of an image. Known digests are answered from memory or disk; tags are
    /// resolved at most once per [`crate::Settings::tag_ttl`].
    pub async fn base_config(
        &self,
        image: &Reference,
        keyring: &Keyring,
    ) -> Result<Arc<BaseConfig>, Error> {
        let located = Arc::new(self.inner.locate(image, keyring)?);
        let digest = self.inner.current_digest(&located).await?;
        let scope = self.inner.scope(&located.target.name());
        if let Some(known) = self.inner.bases.get(&(scope, digest.clone())) {
            self.inner.check_access(&located, &digest).await?;
            return Ok(known);
        }
        let key = (located.key(), digest.clone());
        let (inner, written) = (Arc::clone(&self.inner), image.to_string());
        self.inner
            .base_flights
            .join(key, || {
                let (inner, located) = (Arc::clone(&inner), Arc::clone(&located));
                let (digest, written) = (digest.clone(), written.clone());
                async move { fetch(&inner, &located, &digest, &written).await }
            })
            .await
    }
}

async fn fetch(
    inner: &Arc<Inner>,
    located: &Located,
    digest: &Digest,
    image: &str,
) -> Result<Arc<BaseConfig>, Error> {
    let kept_as = (inner.scope(&located.target.name()), digest.clone());
    if let Some(known) = inner.bases.get(&kept_as) {
        inner.check_access(located, digest).await?;
        return Ok(known);
    }
    let read = async {
        let opened = open_image(inner, located, digest, image).await?;
        read_base(inner, &opened, image).await
    };
    let base = Arc::new(inner.within_deadline(image, read).await?);
    inner.bases.put(kept_as, Arc::clone(&base));
    Ok(base)
}

/// An image down to its config blob.
pub(crate) struct OpenImage {
    pub(crate) session: Arc<Session>,
    pub(crate) repository: String,
    pub(crate) image_digest: Digest,
    pub(crate) manifest_digest: Digest,
    pub(crate) manifest: Manifest,
    pub(crate) config: ImageConfig,
    /// Platforms of the index, when the reference was one.
    pub(crate) platforms: Vec<Platform>,
}

/// Reads index, manifest and config, choosing the platform on the way.
pub(crate) async fn open_image(
    inner: &Arc<Inner>,
    located: &Located,
    digest: &Digest,
    image: &str,
) -> Result<OpenImage, Error> {
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
                    return Err(not_an_image(format!("its config is of type {kind:?}")));
                }
                let limit = inner.settings.limits.config_bytes;
                let blob = inner
                    .blob(&session, &repository, &manifest.config, limit)
                    .await?;
                let config = serde_json::from_slice(&blob)
                    .map_err(|error| not_an_image(format!("its config cannot be read: {error}")))?;
                return Ok(OpenImage {
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
                let wanted = &inner.settings.platform;
                platforms.extend(index.manifests.iter().filter_map(|d| d.platform.clone()));
                let chosen = index.choose(wanted).ok_or_else(|| {
                    let Platform { os, architecture } = wanted;
                    not_an_image(format!("its index has no entry for {os}/{architecture}"))
                })?;
                manifest_digest = chosen.digest.clone();
                bytes = inner
                    .manifest(&session, &repository, &manifest_digest)
                    .await?;
            }
        }
    }
    Err(not_an_image("its index leads to indexes only".to_owned()))
}

/// Follows the labels of an opened image to the configuration.
pub(crate) async fn read_base(
    inner: &Arc<Inner>,
    opened: &OpenImage,
    image: &str,
) -> Result<BaseConfig, Error> {
    let run = opened.config.config.clone().unwrap_or_default();
    let all = run.labels.unwrap_or_default();
    let bad = |label: &str, problem: String, fix: &str| Error::BadLabel {
        image: image.to_owned(),
        label: label.to_owned(),
        problem,
        fix: fix.to_owned(),
    };
    let limit = inner.settings.limits.base_bytes;
    let found = labels::find(&all, limit).map_err(|b| bad(&b.label, b.problem, b.fix))?;
    let Some((scheme, source)) = found else {
        return Err(Error::MissingConfigLabels {
            image: image.to_owned(),
        });
    };
    let (content, label, source) = match source {
        Source::Inline { label, content } => (content, label.clone(), format!("label {label}")),
        Source::Layer { layer, path } => {
            let descriptor = layer_of(opened, &layer).ok_or_else(|| {
                let problem = format!("the image has no layer {layer}");
                bad(
                    labels::LAYER,
                    problem,
                    "label the image again after its layers changed",
                )
            })?;
            let content = file_of(inner, opened, descriptor, &path, image).await?;
            let content = content.ok_or_else(|| {
                let problem = format!("layer {layer} has no file {:?}", path.as_str());
                bad(
                    labels::PATH,
                    problem,
                    "correct the path, or name the layer that has the file",
                )
            })?;
            (
                content,
                labels::PATH.to_owned(),
                format!("layer {layer}, file /{}", path.as_str()),
            )
        }
    };
    let yaml = String::from_utf8(content).map_err(|_| {
        bad(
            &label,
            "the file is not UTF-8 text".to_owned(),
            "label the YAML file",
        )
    })?;
    let text_of = |label: &str| all.get(label).filter(|v| !v.trim().is_empty()).cloned();
    Ok(BaseConfig {
        config_digest: Digest::of(yaml.as_bytes()),
        yaml,
        image_digest: opened.image_digest.clone(),
        manifest_digest: opened.manifest_digest.clone(),
        scheme,
        source,
        schema: text_of(labels::SCHEMA),
        config_version: text_of(labels::VERSION),
        server_version: labels::server_version(&all),
        plugin: text_of(labels::PLUGIN),
        user: run.user.filter(|user| !user.is_empty()),
        hints: labels::hints(&all),
    })
}

/// The layer a label means. Tools that repack layers on the way to a mirror keep the digest of the
/// unpacked content, so that is accepted too.
fn layer_of<'a>(opened: &'a OpenImage, wanted: &Digest) -> Option<&'a Descriptor> {
    let layers = &opened.manifest.layers;
    let by_content = || {
        let ids = &opened.config.rootfs.as_ref()?.diff_ids;
        let at = ids.iter().position(|id| *id == wanted.to_string())?;
        (ids.len() == layers.len())
            .then(|| layers.get(at))
            .flatten()
    };
    layers
        .iter()
        .find(|layer| layer.digest == *wanted)
        .or_else(by_content)
}

pub(crate) async fn file_of(
    inner: &Arc<Inner>,
    opened: &OpenImage,
    layer: &Descriptor,
    path: &LayerPath,
    image: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let scope = inner.scope(&opened.session.name_of(&opened.repository));
    if let Some(content) = inner.store.file(&scope, &layer.digest, path.as_str()).await {
        return Ok(Some(content));
    }
    let OpenImage {
        session,
        repository,
        ..
    } = opened;
    let mut looked_for = path.clone();
    for _ in 0..MAX_LINKS {
        let wanted = Wanted::Path(looked_for);
        match search_layer(inner, session, repository, layer, &wanted, image).await? {
            Found::File { content, .. } => {
                inner
                    .store
                    .keep_file(&scope, &layer.digest, path.as_str(), &content)
                    .await;
                return Ok(Some(content));
            }
            Found::Elsewhere(target) => looked_for = target,
            Found::Nothing => return Ok(None),
        }
    }
    Ok(None)
}

/// One pass over one layer.
pub(crate) async fn search_layer(
    inner: &Inner,
    session: &Session,
    repository: &str,
    layer: &Descriptor,
    wanted: &Wanted,
    image: &str,
) -> Result<Found, Error> {
    let limits = inner.settings.limits;
    let caps = Caps {
        unpacked_bytes: limits.unpacked_bytes,
        file_bytes: limits.base_bytes,
    };
    let search = async || {
        let blob = session
            .open_blob(repository, layer, limits.layer_bytes)
            .await?;
        layer::scan_blob(blob, wanted, caps).await
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

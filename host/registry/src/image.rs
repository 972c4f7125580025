//! For those who make distribution images: what the operator reads from one, and labels put onto one.
//!
//! Labelling rewrites the image's config blob and the manifest (and index) above it, and nothing else: layers
//! stay where they are, in the same repository.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::base::{self, BaseConfig, open_image, read_base, search_layer};
use crate::client::{Inner, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::labels::{self, Scheme};
use crate::layer::{Found, Wanted};
use crate::manifest::{Document, Manifest, OCI_INDEX, OCI_MANIFEST, Platform};
use crate::reference::{ParseReferenceError, Reference};
use crate::session::Session;

/// FR-027a: what goes into a label, and what is only pointed to.
const MAX_LABEL_CONFIG: usize = 50 << 10;

/// What the operator sees when it looks at an image.
#[derive(Clone, Debug)]
pub struct ImageReport {
    /// What the reference pointed to.
    pub image_digest: Digest,
    /// The manifest read for this machine's platform.
    pub manifest_digest: Digest,
    /// The platforms of its index; empty when it has none.
    pub platforms: Vec<Platform>,
    /// The configuration, or why there is none.
    pub base: Result<BaseConfig, base::Error>,
}

/// What is to be written onto an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelling {
    /// The configuration file, exactly as the server would read it.
    pub config: Vec<u8>,
    /// Its `version`, for label `io.llamastack.config.version`.
    pub version: Option<String>,
    /// Its schema id.
    pub schema: Option<String>,
    /// The plugin to propose.
    pub plugin: Option<String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// The new image, under its tag.
    pub reference: Reference,
    /// Its digest.
    pub digest: Digest,
    /// How the configuration is found on it.
    pub scheme: Scheme,
    /// What the operator reads back from it.
    pub base: Arc<BaseConfig>,
}

/// Why an image could not be labelled.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The image could not be read, or what was written does not read back.
    #[error("the image could not be read")]
    Image(#[from] base::Error),
    /// The registry did not take it.
    #[error("the labelled image could not be written")]
    Registry(#[from] RegistryError),
    /// The new tag is none.
    #[error("the new tag cannot be used")]
    Tag(#[from] ParseReferenceError),
    /// A large configuration must already be in the image.
    #[error(
        "{image}: the configuration has {size} bytes, too many for a label, and no layer that could be searched holds a \
         file with exactly this content; COPY the file into the image and label that"
    )]
    NotInAnyLayer {
        /// The image.
        image: String,
        /// Size of the configuration.
        size: usize,
    },
    /// The image's documents are not what they should be.
    #[error("{image}: {problem}")]
    Malformed {
        /// The image.
        image: String,
        /// What is wrong.
        problem: String,
    },
}

impl Registry {
    /// What the operator would read from an image, without remembering it.
    pub async fn inspect_image(
        &self,
        image: &Reference,
        keyring: &Keyring,
    ) -> Result<ImageReport, base::Error> {
        let inner = &self.inner;
        let located = inner.locate(image, keyring)?;
        let written = image.to_string();
        let looking = async {
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
        inner.within_deadline(&written, looking).await
    }

    /// Writes a labelled copy of an image under another tag of the same repository, for every platform it has,
    /// and reads it back.
    pub async fn label_image(
        &self,
        image: &Reference,
        tag: &str,
        labelling: &Labelling,
        keyring: &Keyring,
    ) -> Result<Labelled, Error> {
        let inner = &self.inner;
        let target = image.with_tag(tag)?;
        let located = inner.locate(image, keyring).map_err(base::Error::from)?;
        let written = image.to_string();
        let writing = async {
            let digest = inner.resolve(&located).await?;
            let (session, bytes) = inner.first_manifest(&located, &digest).await?;
            let repository = located.target.repository();
            let work = Work {
                inner,
                session: &session,
                repository,
                image: &written,
                labelling,
            };
            work.label_document(&bytes, tag).await
        };
        let digest = inner.within_deadline(&written, writing).await?;
        let base = self.base_config(&target.at(&digest), keyring).await?;
        if base.yaml.as_bytes() != labelling.config {
            let problem = "the configuration read back differs from the one written".to_owned();
            return Err(Error::Malformed {
                image: target.to_string(),
                problem,
            });
        }
        Ok(Labelled {
            reference: target,
            digest,
            scheme: base.scheme,
            base,
        })
    }
}

/// What labelling one image needs at every step.
struct Work<'a> {
    inner: &'a Inner,
    session: &'a Session,
    repository: &'a str,
    image: &'a str,
    labelling: &'a Labelling,
}

impl Work<'_> {
    /// Labels an image, or every image of an index, and puts the result under the tag.
    async fn label_document(&self, bytes: &[u8], tag: &str) -> Result<Digest, Error> {
        match Document::parse(bytes).map_err(|problem| self.malformed(problem))? {
            Document::Manifest(manifest) => self
                .label_manifest(bytes, &manifest, Some(tag))
                .await
                .map(|(d, _)| d),
            Document::Index(_) => self.label_index(bytes, tag).await,
        }
    }

    async fn label_index(&self, bytes: &[u8], tag: &str) -> Result<Digest, Error> {
        let mut index = self.json(bytes)?;
        let media_type = media_type(&index, OCI_INDEX);
        let entries = index.get_mut("manifests").and_then(Value::as_array_mut);
        let entries = entries.ok_or_else(|| self.malformed("its index has no list".to_owned()))?;
        // Attestations speak about the manifests that are being replaced.
        entries.retain(|entry| entry["platform"]["os"] != "unknown");
        for entry in entries.iter_mut() {
            let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
            let stored = self.session.get_manifest(self.repository, &digest).await?;
            let parsed =
                Document::parse(&stored.bytes).map_err(|problem| self.malformed(problem))?;
            let Document::Manifest(manifest) = parsed else {
                return Err(self.malformed("its index holds another index".to_owned()));
            };
            let (digest, size) = self.label_manifest(&stored.bytes, &manifest, None).await?;
            entry["digest"] = digest.to_string().into();
            entry["size"] = size.into();
        }
        let bytes = self.text(&index)?;
        Ok(self
            .session
            .put_manifest(self.repository, tag, &media_type, bytes)
            .await?)
    }

    /// Writes config and manifest of one image; answers with its digest and size.
    async fn label_manifest(
        &self,
        bytes: &[u8],
        manifest: &Manifest,
        tag: Option<&str>,
    ) -> Result<(Digest, usize), Error> {
        if !manifest.is_image() {
            let kind = &manifest.config.media_type;
            return Err(self.malformed(format!(
                "it is not an image: its config is of type {kind:?}"
            )));
        }
        let limit = self.inner.settings.limits.config_bytes;
        let config = self
            .session
            .get_blob(self.repository, &manifest.config, limit)
            .await?;
        let mut config = self.json(&config)?;
        let labels = self.labels(manifest).await?;
        self.write_labels(&mut config, labels)?;
        let config = self.text(&config)?;
        let mut document = self.json(bytes)?;
        document["config"]["digest"] = Digest::of(&config).to_string().into();
        document["config"]["size"] = config.len().into();
        let media_type = media_type(&document, OCI_MANIFEST);
        let document = self.text(&document)?;
        let (digest, size) = (Digest::of(&document), document.len());
        self.session
            .put_blob(self.repository, config.into())
            .await?;
        let selector = tag.map_or_else(|| digest.to_string(), str::to_owned);
        self.session
            .put_manifest(self.repository, &selector, &media_type, document)
            .await?;
        Ok((digest, size))
    }

    /// The labels to write; `None` removes one.
    async fn labels(
        &self,
        manifest: &Manifest,
    ) -> Result<Vec<(&'static str, Option<String>)>, Error> {
        let Labelling {
            config,
            version,
            schema,
            plugin,
        } = self.labelling;
        let (inline, layer, path) = if config.len() < MAX_LABEL_CONFIG {
            (Some(STANDARD.encode(config)), None, None)
        } else {
            let (layer, path) = self.find_layer(manifest).await?;
            (None, Some(layer.to_string()), Some(format!("/{path}")))
        };
        Ok(vec![
            (labels::BASE64, inline),
            (labels::LAYER, layer),
            (labels::PATH, path),
            (labels::VERSION, version.clone()),
            (labels::SCHEMA, schema.clone()),
            (labels::PLUGIN, plugin.clone()),
        ])
    }

    /// The layer and path with exactly the configuration's content; the topmost, since that is what runs.
    async fn find_layer(&self, manifest: &Manifest) -> Result<(Digest, String), Error> {
        let wanted = Wanted::Content(Digest::of(&self.labelling.config));
        for layer in manifest.layers.iter().rev() {
            let Self {
                inner,
                session,
                repository,
                image,
                ..
            } = self;
            match search_layer(inner, session, repository, layer, &wanted, image).await {
                Ok(Found::File { path, .. }) => {
                    return Ok((layer.digest.clone(), path.as_str().to_owned()));
                }
                Ok(Found::Nothing | Found::Elsewhere(_)) => {}
                // A layer too large for the operator to read cannot be pointed to either.
                Err(base::Error::Layer { source, .. }) => {
                    tracing::info!(layer = %layer.digest, reason = %source, "layer not searched");
                }
                Err(base::Error::Registry(error @ RegistryError::TooLarge { .. })) => {
                    tracing::info!(layer = %layer.digest, reason = %error, "layer not searched");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let size = self.labelling.config.len();
        Err(Error::NotInAnyLayer {
            image: self.image.to_owned(),
            size,
        })
    }

    fn write_labels(
        &self,
        config: &mut Value,
        labels: Vec<(&'static str, Option<String>)>,
    ) -> Result<(), Error> {
        let mut node = config;
        for key in ["config", "Labels"] {
            let map = node.as_object_mut();
            let map =
                map.ok_or_else(|| self.malformed("its config is not an object".to_owned()))?;
            node = map.entry(key).or_insert(Value::Null);
            if node.is_null() {
                *node = Value::Object(Map::new());
            }
        }
        let map = node.as_object_mut();
        let map = map.ok_or_else(|| self.malformed("its labels are not an object".to_owned()))?;
        for (label, value) in labels {
            match value {
                Some(value) => map.insert(label.to_owned(), value.into()),
                None => map.shift_remove(label),
            };
        }
        Ok(())
    }

    fn json(&self, bytes: &[u8]) -> Result<Value, Error> {
        serde_json::from_slice(bytes)
            .map_err(|error| self.malformed(format!("cannot be read: {error}")))
    }

    fn text(&self, value: &Value) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(value)
            .map_err(|error| self.malformed(format!("cannot be written: {error}")))
    }

    fn malformed(&self, problem: String) -> Error {
        Error::Malformed {
            image: self.image.to_owned(),
            problem,
        }
    }
}

/// OCI documents may leave their type out; Docker's never do.
fn media_type(document: &Value, otherwise: &str) -> String {
    document["mediaType"]
        .as_str()
        .unwrap_or(otherwise)
        .to_owned()
}

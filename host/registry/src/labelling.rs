//! Adds the configuration labels to a distribution image, for the authors of images.
//!
//! Labelling writes a new config blob and a new manifest (and index) to the same repository. The layers
//! do not change.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::base_config::{self, BaseConfig};
use crate::client::{Inner, Registry};
use crate::credentials::Keyring;
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::labels::{self, Scheme};
use crate::layer::{FileQuery, Found};
use crate::manifest::{Document, Manifest, OCI_INDEX, OCI_MANIFEST};
use crate::opened_image::search_layer;
use crate::reference::{ParseReferenceError, Reference};
use crate::session::Session;

/// The size from which a configuration is not stored in a label but in a layer (FR-027a).
const MAX_LABEL_CONFIG: usize = 50 << 10;

/// The labels to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelling {
    /// The content of the configuration file.
    pub config: Vec<u8>,
    /// Its `version`, for label `io.llamastack.config.version`.
    pub version: Option<String>,
    /// Its schema id, for label `io.llamastack.config.schema`.
    pub schema: Option<String>,
    /// The plugin to propose, for label `io.llamastack.config.plugin`.
    pub plugin: Option<String>,
}

/// A labelled image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// The reference of the new image, with its tag.
    pub reference: Reference,
    /// The digest of the new image.
    pub digest: Digest,
    /// The label scheme that was used.
    pub scheme: Scheme,
    /// The base configuration, read from the new image.
    pub base: Arc<BaseConfig>,
}

/// Why an image cannot be labelled.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The image, or the labelled image, cannot be read.
    #[error("failed to read the image")]
    Image(#[from] base_config::Error),
    /// A request to the registry failed.
    #[error("failed to write the labelled image")]
    Registry(#[from] RegistryError),
    /// The new tag is invalid.
    #[error("the new tag is invalid")]
    Tag(#[from] ParseReferenceError),
    /// The configuration is too large for a label and in no layer.
    #[error(
        "{image}: the configuration has {size} bytes, which is too large for a label, and no layer that can be \
         searched contains a file with exactly this content; COPY the file into the image, then label the image"
    )]
    NotInAnyLayer {
        /// The image.
        image: String,
        /// Size of the configuration.
        size: usize,
    },
    /// The manifest, index or config of the image is invalid.
    #[error("{image}: {problem}")]
    Malformed {
        /// The image.
        image: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Registry {
    /// Writes a labelled copy of an image with another tag to the same repository, for every platform of
    /// the image, then reads the configuration back.
    pub async fn label_image(
        &self,
        image: &Reference,
        tag: &str,
        labelling: &Labelling,
        keyring: &Keyring,
    ) -> Result<Labelled, Error> {
        let inner = &self.inner;
        let target = image.with_tag(tag)?;
        let located = inner
            .locate(image, keyring)
            .map_err(base_config::Error::from)?;
        let written = image.to_string();
        let labelling_task = async {
            let digest = inner.resolve(&located).await?;
            let (session, bytes) = inner.first_manifest(&located, &digest).await?;
            let repository = located.target.repository();
            let labeller = Labeller {
                inner,
                session: &session,
                repository,
                image: &written,
                labelling,
            };
            labeller.label_document(&bytes, tag).await
        };
        let digest = inner.within_deadline(&written, labelling_task).await?;
        let base = self.base_config(&target.at(&digest), keyring).await?;
        if base.yaml.as_bytes() != labelling.config {
            let problem =
                "the configuration read back differs from the configuration written".to_owned();
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

/// Labels the documents of one image.
struct Labeller<'a> {
    inner: &'a Inner,
    session: &'a Session,
    repository: &'a str,
    image: &'a str,
    labelling: &'a Labelling,
}

impl Labeller<'_> {
    /// Labels a manifest, or every manifest of an index, and tags the result.
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
        let mut index = self.parse(bytes)?;
        let media_type = media_type(&index, OCI_INDEX);
        let entries = index.get_mut("manifests").and_then(Value::as_array_mut);
        let entries = entries
            .ok_or_else(|| self.malformed("the index has no list of manifests".to_owned()))?;
        // Attestations describe the manifests that are replaced.
        entries.retain(|entry| entry["platform"]["os"] != "unknown");
        for entry in entries.iter_mut() {
            let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
            let stored = self.session.get_manifest(self.repository, &digest).await?;
            let parsed =
                Document::parse(&stored.bytes).map_err(|problem| self.malformed(problem))?;
            let Document::Manifest(manifest) = parsed else {
                return Err(self.malformed("the index contains another index".to_owned()));
            };
            let (digest, size) = self.label_manifest(&stored.bytes, &manifest, None).await?;
            entry["digest"] = digest.to_string().into();
            entry["size"] = size.into();
        }
        let bytes = self.serialize(&index)?;
        Ok(self
            .session
            .put_manifest(self.repository, tag, &media_type, bytes)
            .await?)
    }

    /// Writes the config and manifest of one image. Returns the digest and size of the manifest.
    async fn label_manifest(
        &self,
        bytes: &[u8],
        manifest: &Manifest,
        tag: Option<&str>,
    ) -> Result<(Digest, usize), Error> {
        if !manifest.is_image() {
            let kind = &manifest.config.media_type;
            return Err(self.malformed(format!("not an image: the config has media type {kind:?}")));
        }
        let limit = self.inner.settings.limits.config_bytes;
        let config = self
            .session
            .get_blob(self.repository, &manifest.config, limit)
            .await?;
        let mut config = self.parse(&config)?;
        let labels = self.labels(manifest).await?;
        self.write_labels(&mut config, labels)?;
        let config = self.serialize(&config)?;
        let mut document = self.parse(bytes)?;
        document["config"]["digest"] = Digest::of(&config).to_string().into();
        document["config"]["size"] = config.len().into();
        let media_type = media_type(&document, OCI_MANIFEST);
        let document = self.serialize(&document)?;
        let (digest, size) = (Digest::of(&document), document.len());
        self.session
            .put_blob(self.repository, config.into())
            .await?;
        let tag_or_digest = tag.map_or_else(|| digest.to_string(), str::to_owned);
        self.session
            .put_manifest(self.repository, &tag_or_digest, &media_type, document)
            .await?;
        Ok((digest, size))
    }

    /// The labels to write; `None` removes a label.
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

    /// The layer and path of a file with exactly the content of the configuration. The topmost layer is
    /// used, because its file is the one that the container sees.
    async fn find_layer(&self, manifest: &Manifest) -> Result<(Digest, String), Error> {
        let query = FileQuery::Content(Digest::of(&self.labelling.config));
        for layer in manifest.layers.iter().rev() {
            let Self {
                inner,
                session,
                repository,
                image,
                ..
            } = self;
            match search_layer(inner, session, repository, layer, &query, image).await {
                Ok(Found::File { path, .. }) => {
                    return Ok((layer.digest.clone(), path.as_str().to_owned()));
                }
                Ok(Found::Nothing | Found::HardLink(_)) => {}
                // The operator cannot read such a layer either, so the labels must not refer to it.
                Err(base_config::Error::Layer { source, .. }) => {
                    tracing::info!(layer = %layer.digest, reason = %source, "skipped a layer that cannot be searched");
                }
                Err(base_config::Error::Registry(error @ RegistryError::TooLarge { .. })) => {
                    tracing::info!(layer = %layer.digest, reason = %error, "skipped a layer that cannot be searched");
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
                map.ok_or_else(|| self.malformed("the config is not a JSON object".to_owned()))?;
            node = map.entry(key).or_insert(Value::Null);
            if node.is_null() {
                *node = Value::Object(Map::new());
            }
        }
        let map = node.as_object_mut();
        let map = map.ok_or_else(|| {
            self.malformed("the labels of the config are not a JSON object".to_owned())
        })?;
        for (label, value) in labels {
            match value {
                Some(value) => map.insert(label.to_owned(), value.into()),
                None => map.shift_remove(label),
            };
        }
        Ok(())
    }

    fn parse(&self, bytes: &[u8]) -> Result<Value, Error> {
        serde_json::from_slice(bytes)
            .map_err(|error| self.malformed(format!("invalid JSON: {error}")))
    }

    fn serialize(&self, value: &Value) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(value)
            .map_err(|error| self.malformed(format!("failed to serialize: {error}")))
    }

    fn malformed(&self, problem: String) -> Error {
        Error::Malformed {
            image: self.image.to_owned(),
            problem,
        }
    }
}

/// The media type of a document. OCI documents may omit it, Docker's may not.
fn media_type(document: &Value, default: &str) -> String {
    document["mediaType"].as_str().unwrap_or(default).to_owned()
}

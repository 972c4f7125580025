//! The folder of an OCI layout: blobs by digest, and the index of its images.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::image::{ImageConfig, Platform};
use crate::layer::{self, Compression, Layer, LayerWriter, digest_of_hash};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The empty configuration of a manifest that is not an image.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// What a manifest or an index says about a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The type of its content.
    pub media_type: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: String, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
        }
    }
}

/// A document about an image, stored beside it and found by the image's digest.
#[derive(Debug, Clone)]
pub struct Referrer<'a> {
    /// The type of the document, such as `application/vnd.cyclonedx+json`.
    pub media_type: &'a str,
    /// The document.
    pub content: &'a [u8],
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

/// An artifact that is not an image, such as a chart.
#[derive(Debug, Clone)]
pub struct Artifact<'a> {
    /// The media type of its configuration, which says what it is.
    pub config_type: &'a str,
    /// Its configuration.
    pub config: &'a [u8],
    /// The media type of its content.
    pub content_type: &'a str,
    /// Its content.
    pub content: &'a [u8],
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

/// The annotation of an index entry with the tag, or with repository and tag.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// A layout that is being written.
#[derive(Debug)]
pub struct ImageLayout {
    folder: PathBuf,
    mtime: u64,
    index: Vec<Value>,
}

impl ImageLayout {
    /// Creates an empty layout in `folder`, and removes what was there. Entries of its layers have the
    /// time `mtime`, in seconds since 1970.
    pub fn create(folder: &Path, mtime: u64) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("failed to remove {}", folder.display()))?;
        }
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs)
            .with_context(|| format!("failed to create {}", blobs.display()))?;
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        Ok(Self {
            folder: folder.to_owned(),
            mtime,
            index: Vec::new(),
        })
    }

    /// Writes a layer.
    pub fn layer(
        &self,
        compression: Compression,
        fill: impl FnOnce(&mut LayerWriter<'_>) -> Result<()>,
    ) -> Result<Layer> {
        let temporary = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut output = BufWriter::with_capacity(1 << 20, temporary);
        let layer = layer::write(&mut output, compression, self.mtime, fill)?;
        output.flush()?;
        let temporary = output.into_inner()?;
        temporary.persist(self.blob_path(&layer.descriptor.digest))?;
        Ok(layer)
    }

    /// Adds a layer of the layout in `from`, as a hard link if possible.
    pub fn share(&self, from: &Path, layer: &Layer) -> Result<()> {
        let name = Self::blob_name(&layer.descriptor.digest);
        let (source, target) = (from.join(&name), self.folder.join(&name));
        if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)
                .with_context(|| format!("failed to copy {}", source.display()))?;
        }
        Ok(())
    }

    /// Writes an image, and lists it in the index as `name`.
    pub fn image(
        &mut self,
        name: &str,
        config: &ImageConfig,
        layers: &[Layer],
    ) -> Result<Descriptor> {
        let manifest = self.image_manifest(config, layers)?;
        // Tools read the tag from one, containerd the whole name from the other.
        let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        let mut entry = serde_json::to_value(&manifest)?;
        entry["platform"] = config.platform.to_json();
        entry["annotations"] = json!({REF_NAME: tag, "io.containerd.image.name": name});
        self.index.push(entry);
        Ok(manifest)
    }

    /// Writes an image that only an image index refers to.
    pub fn image_manifest(&self, config: &ImageConfig, layers: &[Layer]) -> Result<Descriptor> {
        let blob = self.json(CONFIG, &config.to_json(layers))?;
        let descriptors: Vec<&Descriptor> = layers.iter().map(|layer| &layer.descriptor).collect();
        self.json(
            MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": blob,
                "layers": descriptors,
                "annotations": config.labels,
            }),
        )
    }

    /// Writes an image index of one image for each platform, and lists it in the index of the layout.
    /// `name` is the repository and the tag.
    pub fn image_index(
        &mut self,
        name: &str,
        images: &[(Platform, Descriptor)],
        annotations: &BTreeMap<String, String>,
    ) -> Result<Descriptor> {
        let mut manifests = Vec::new();
        for (platform, image) in images {
            let mut entry = serde_json::to_value(image)?;
            entry["platform"] = platform.to_json();
            manifests.push(entry);
        }
        let index = self.json(
            INDEX,
            &json!({
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": manifests,
                "annotations": annotations,
            }),
        )?;
        self.list(&index, name)?;
        Ok(index)
    }

    /// Writes an artifact, and lists it in the index. `name` is the repository and the tag.
    pub fn artifact(&mut self, name: &str, artifact: &Artifact<'_>) -> Result<Descriptor> {
        let config = self.blob(artifact.config_type, artifact.config)?;
        let content = self.blob(artifact.content_type, artifact.content)?;
        let manifest = self.json(
            MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config,
                "layers": [content],
                "annotations": artifact.annotations,
            }),
        )?;
        self.list(&manifest, name)?;
        Ok(manifest)
    }

    /// Copies the only artifact of the layout in `from` and the documents about it, and lists the artifact in
    /// the index as `name`.
    pub fn import(&mut self, from: &Path, name: &str) -> Result<Descriptor> {
        let index = fs::read(from.join("index.json"))
            .with_context(|| format!("failed to read the layout in {}", from.display()))?;
        let index: Value = serde_json::from_slice(&index)?;
        let entries = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
        let is_document = |entry: &&Value| !entry["artifactType"].is_null();
        let (documents, artifacts): (Vec<&Value>, Vec<&Value>) =
            entries.iter().partition(is_document);
        let [entry] = artifacts[..] else {
            bail!("the layout in {} must have one artifact", from.display());
        };
        let manifest: Descriptor = serde_json::from_value(entry.clone())?;
        for blob in fs::read_dir(from.join("blobs/sha256"))? {
            let blob = blob?;
            let target = self.folder.join("blobs/sha256").join(blob.file_name());
            fs::copy(blob.path(), &target)
                .with_context(|| format!("failed to copy {}", blob.path().display()))?;
        }
        self.list(&manifest, name)?;
        self.index.extend(documents.into_iter().cloned());
        Ok(manifest)
    }

    /// Writes a document about `subject`, and lists it in the index.
    pub fn referrer(
        &mut self,
        subject: &Descriptor,
        referrer: &Referrer<'_>,
    ) -> Result<Descriptor> {
        let config = self.blob(EMPTY, b"{}")?;
        let content = self.blob(referrer.media_type, referrer.content)?;
        let manifest = self.json(
            MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "artifactType": referrer.media_type,
                "config": config,
                "layers": [content],
                "subject": subject,
                "annotations": referrer.annotations,
            }),
        )?;
        let mut entry = serde_json::to_value(&manifest)?;
        entry["artifactType"] = json!(referrer.media_type);
        self.index.push(entry);
        Ok(manifest)
    }

    /// Writes the index, which makes the layout complete.
    pub fn finish(self) -> Result<()> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.index});
        let file = self.folder.join("index.json");
        fs::write(&file, index.to_string())
            .with_context(|| format!("failed to write {}", file.display()))
    }

    fn list(&mut self, manifest: &Descriptor, name: &str) -> Result<()> {
        let mut entry = serde_json::to_value(manifest)?;
        entry["annotations"] = json!({REF_NAME: name});
        self.index.push(entry);
        Ok(())
    }

    fn json(&self, media_type: &str, value: &Value) -> Result<Descriptor> {
        self.blob(media_type, value.to_string().as_bytes())
    }

    fn blob(&self, media_type: &str, content: &[u8]) -> Result<Descriptor> {
        let digest = digest_of_hash(&Sha256::digest(content));
        let file = self.blob_path(&digest);
        fs::write(&file, content).with_context(|| format!("failed to write {}", file.display()))?;
        Ok(Descriptor::new(media_type, digest, content.len() as u64))
    }

    fn blob_path(&self, digest: &str) -> PathBuf {
        self.folder.join(Self::blob_name(digest))
    }

    fn blob_name(digest: &str) -> PathBuf {
        Path::new("blobs").join(digest.replace(':', "/"))
    }
}

/// Writes the layout in `folder` as one tar archive, which `ctr images import` reads.
pub fn export(folder: &Path, output: &mut dyn Write) -> Result<()> {
    let mut tar = tar::Builder::new(output);
    for name in ["oci-layout", "index.json"] {
        tar.append_path_with_name(folder.join(name), name)?;
    }
    let blobs = Path::new("blobs/sha256");
    for blob in fs::read_dir(folder.join(blobs))? {
        let blob = blob?;
        tar.append_path_with_name(blob.path(), blobs.join(blob.file_name()))?;
    }
    tar.finish()?;
    Ok(())
}

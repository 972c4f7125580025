//! The OCI artifact of a plugin, in the layout that `wkg oci push` writes.
//!
//! The artifact is an OCI manifest with a config of type `application/vnd.wasm.config.v0+json` and one
//! layer of type `application/wasm`, the component. The digest of the layer identifies the plugin,
//! because manifests of the same component differ in dates and annotations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::manifest::{Descriptor, Document, Manifest, OCI_INDEX, OCI_MANIFEST, TITLE_ANNOTATION};

pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const WASM_LAYER: &str = "application/wasm";

/// The metadata of a component that is written to the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The file name, for example `llama-stack-0.7.wasm`.
    pub title: String,
    /// The exported interfaces.
    pub exports: Vec<String>,
    /// The imported interfaces. A plugin that can be loaded has none.
    pub imports: Vec<String>,
    /// The WIT world.
    pub target: Option<String>,
    /// Annotations of the manifest, for people and catalogues. They are not verified.
    pub annotations: BTreeMap<String, String>,
    /// The value of `created` (RFC 3339), from `SOURCE_DATE_EPOCH`. The default is 1970-01-01, so that the
    /// same component always gives the same manifest.
    pub created: Option<String>,
}

impl Description {
    /// The digest of the manifest that a push of this component writes.
    pub fn manifest_digest(&self, component: &[u8]) -> Result<Digest, serde_json::Error> {
        pack(component, self).map(|packed| packed.manifest_digest)
    }
}

/// A document about a plugin, such as a conformance report or an SBOM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The media type, which is also the type of the artifact.
    pub media_type: String,
    /// The document.
    pub content: Vec<u8>,
}

/// The config of an artifact that has none.
pub(crate) const EMPTY_CONFIG: &[u8] = b"{}";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

impl Attachment {
    /// The manifest of an artifact that refers to the manifest `subject`.
    pub(crate) fn pack(&self, subject: &[u8]) -> Vec<u8> {
        let describe = |media_type: &str, content: &[u8]| {
            descriptor(media_type, Digest::of(content), content.len(), None)
        };
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": self.media_type,
            "config": describe(EMPTY, EMPTY_CONFIG),
            "layers": [describe(&self.media_type, &self.content)],
            "subject": describe(OCI_MANIFEST, subject),
        });
        manifest.to_string().into_bytes()
    }
}

/// Why an artifact could not be written to a directory.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The metadata cannot be encoded.
    #[error("failed to encode the metadata of the plugin")]
    Encode(#[from] serde_json::Error),
    /// The file system refused.
    #[error("failed to write {path}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Writes the artifact that a push of this component uploads to `folder`, and documents about it, as an OCI
/// layout with one named entry. Returns the digest of its manifest. `tag` is the name of the entry.
pub fn write_layout(
    folder: &Path,
    tag: &str,
    component: &[u8],
    description: &Description,
    documents: &[Attachment],
) -> Result<Digest, WriteError> {
    let packed = pack(component, description)?;
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).map_err(|source| WriteError::File {
        path: blobs.clone(),
        source,
    })?;
    let write = |path: PathBuf, content: &[u8]| {
        std::fs::write(&path, content).map_err(|source| WriteError::File { path, source })
    };
    let write_blob = |blob: &[u8]| write(blobs.join(Digest::of(blob).hex()), blob);
    for blob in [&packed.config[..], component, &packed.manifest] {
        write_blob(blob)?;
    }
    let mut manifests = vec![serde_json::json!({
        "mediaType": OCI_MANIFEST,
        "digest": packed.manifest_digest,
        "size": packed.manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": tag },
    })];
    for document in documents {
        let manifest = document.pack(&packed.manifest);
        for blob in [EMPTY_CONFIG, &document.content, &manifest] {
            write_blob(blob)?;
        }
        manifests.push(serde_json::json!({
            "mediaType": OCI_MANIFEST,
            "digest": Digest::of(&manifest),
            "size": manifest.len(),
            "artifactType": document.media_type,
        }));
    }
    let index = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": manifests,
    });
    write(folder.join("index.json"), index.to_string().as_bytes())?;
    let version = br#"{"imageLayoutVersion":"1.0.0"}"#;
    write(folder.join("oci-layout"), version)?;
    Ok(packed.manifest_digest)
}

/// An artifact ready to be pushed.
pub(crate) struct Packed {
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) manifest_digest: Digest,
    pub(crate) layer_digest: Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig<'a> {
    created: &'a str,
    architecture: &'a str,
    os: &'a str,
    layer_digests: [&'a Digest; 1],
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    exports: &'a [String],
    imports: &'a [String],
    target: Option<&'a str>,
}

/// Builds the config and the manifest. Equal inputs give equal bytes.
pub(crate) fn pack(
    component: &[u8],
    description: &Description,
) -> Result<Packed, serde_json::Error> {
    let Description {
        title,
        exports,
        imports,
        target,
        annotations,
        created,
    } = description;
    let created = created.as_deref().unwrap_or("1970-01-01T00:00:00Z");
    let layer_digest = Digest::of(component);
    let config = serde_json::to_vec(&WasmConfig {
        created,
        architecture: "wasm",
        os: "wasip2",
        layer_digests: [&layer_digest],
        component: Component {
            exports,
            imports,
            target: target.as_deref(),
        },
    })?;
    let mut annotations = annotations.clone();
    annotations.insert(
        "org.opencontainers.image.created".to_owned(),
        created.to_owned(),
    );
    let title = (!title.is_empty()).then_some(title);
    let manifest = serde_json::to_vec(&Manifest {
        schema_version: 2,
        media_type: OCI_MANIFEST.to_owned(),
        artifact_type: None,
        config: descriptor(WASM_CONFIG, Digest::of(&config), config.len(), None),
        layers: vec![descriptor(
            WASM_LAYER,
            layer_digest.clone(),
            component.len(),
            title,
        )],
        subject: None,
        annotations,
    })?;
    let manifest_digest = Digest::of(&manifest);
    Ok(Packed {
        config,
        manifest,
        manifest_digest,
        layer_digest,
    })
}

fn descriptor(media_type: &str, digest: Digest, size: usize, title: Option<&String>) -> Descriptor {
    let title = title.map(|title| (TITLE_ANNOTATION.to_owned(), title.clone()));
    Descriptor {
        media_type: media_type.to_owned(),
        digest,
        size: size as u64,
        artifact_type: None,
        annotations: title.into_iter().collect(),
        platform: None,
    }
}

/// A parsed document of a plugin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpacked {
    /// The manifest of a plugin.
    Plugin(Box<PluginManifest>),
    /// An index with one entry: the digest of the manifest.
    SingleEntryIndex(Digest),
}

/// The descriptors and annotations of a plugin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PluginManifest {
    pub(crate) layer: Descriptor,
    pub(crate) config: Descriptor,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Parses the manifest or index of a plugin. The error describes the problem.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Unpacked, String> {
    let manifest = match Document::parse(bytes)? {
        Document::Index(index) => {
            return match index.manifests.as_slice() {
                [only] => Ok(Unpacked::SingleEntryIndex(only.digest.clone())),
                several => Err(format!(
                    "it is an index of {} manifests, but a plugin has one manifest for all platforms; use the digest of the \
                     manifest",
                    several.len()
                )),
            };
        }
        Document::Manifest(manifest) => *manifest,
    };
    let Manifest {
        config,
        layers,
        annotations,
        ..
    } = manifest;
    if config.media_type != WASM_CONFIG {
        return Err(format!(
            "the config has media type {:?} instead of {WASM_CONFIG}; push the component with llsd plugin push or \
             wkg oci push",
            config.media_type
        ));
    }
    match <[Descriptor; 1]>::try_from(layers) {
        Ok([layer]) if layer.media_type == WASM_LAYER => {
            Ok(Unpacked::Plugin(Box::new(PluginManifest {
                layer,
                config,
                annotations,
            })))
        }
        Ok([layer]) => Err(format!(
            "the layer has media type {:?} instead of {WASM_LAYER}; push the component with llsd plugin push or \
             wkg oci push",
            layer.media_type
        )),
        Err(layers) => Err(format!(
            "the manifest has {} layers instead of one; push the component with llsd plugin push or wkg oci push",
            layers.len()
        )),
    }
}

/// Checks that the config refers to the layer of the manifest.
pub(crate) fn check_config(config: &[u8], layer: &Digest) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Config {
        #[serde(default)]
        layer_digests: Vec<Digest>,
    }
    let Config { layer_digests } = serde_json::from_slice(config)
        .map_err(|error| format!("the config is invalid: {error}"))?;
    match layer_digests.as_slice() {
        [] => Ok(()),
        [only] if only == layer => Ok(()),
        _ => Err("the config refers to another layer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        Description {
            title: "x.wasm".into(),
            exports: vec!["llamastack:config-adapter/identity@1.0.0".into()],
            annotations: [(
                "org.opencontainers.image.version".to_owned(),
                "1.2.3".to_owned(),
            )]
            .into(),
            ..Description::default()
        }
    }

    #[test]
    fn the_same_bytes_give_the_same_manifest() {
        let first = pack(b"component", &description()).unwrap();
        let second = pack(b"component", &description()).unwrap();
        assert_eq!(first.manifest_digest, second.manifest_digest);
        assert_eq!(first.layer_digest, Digest::of(b"component"));
        assert_ne!(
            pack(b"other", &description()).unwrap().manifest_digest,
            first.manifest_digest
        );
    }

    #[test]
    fn a_written_layout_holds_what_a_push_uploads() {
        let folder = tempfile::tempdir().unwrap();
        let document = Attachment {
            media_type: "application/vnd.in-toto+json".to_owned(),
            content: b"statement".to_vec(),
        };
        let documents = [document.clone()];
        let written = write_layout(
            folder.path(),
            "1.2.3",
            b"component",
            &description(),
            &documents,
        );
        let digest = written.unwrap();
        let packed = pack(b"component", &description()).unwrap();
        assert_eq!(digest, packed.manifest_digest);
        let blob = |digest: &Digest| {
            let name = digest.to_string().replace(':', "/");
            std::fs::read(folder.path().join("blobs").join(name)).unwrap()
        };
        assert_eq!(blob(&digest), packed.manifest);
        assert_eq!(blob(&packed.layer_digest), b"component");
        assert_eq!(blob(&Digest::of(&packed.config)), packed.config);
        let index = std::fs::read(folder.path().join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(entry["digest"], digest.to_string());
        let tag = &entry["annotations"]["org.opencontainers.image.ref.name"];
        assert_eq!(tag, "1.2.3");
        let referrer = document.pack(&packed.manifest);
        assert_eq!(blob(&Digest::of(&referrer)), referrer);
        assert_eq!(blob(&Digest::of(b"statement")), b"statement");
        let entry = &index["manifests"][1];
        assert_eq!(entry["digest"], Digest::of(&referrer).to_string());
        assert_eq!(entry["artifactType"], document.media_type);
    }

    #[test]
    fn the_layout_follows_the_cncf_wasm_artifact_guidance() {
        let packed = pack(b"component", &description()).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&packed.manifest).unwrap();
        assert_eq!(
            manifest["mediaType"],
            "application/vnd.oci.image.manifest.v1+json"
        );
        assert_eq!(
            manifest["config"]["mediaType"],
            "application/vnd.wasm.config.v0+json"
        );
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
        assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
        let config: serde_json::Value = serde_json::from_slice(&packed.config).unwrap();
        assert_eq!(config["os"], "wasip2");
        assert_eq!(config["architecture"], "wasm");
        assert_eq!(config["layerDigests"][0], packed.layer_digest.to_string());
        let Unpacked::Plugin(plugin) = unpack(&packed.manifest).unwrap() else {
            panic!()
        };
        let layer = plugin.layer;
        assert_eq!(layer.digest, packed.layer_digest);
        assert!(check_config(&packed.config, &layer.digest).is_ok());
        assert!(check_config(&packed.config, &Digest::of(b"other")).is_err());
    }

    #[test]
    fn errors_describe_other_layouts() {
        let packed = pack(b"component", &description()).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_slice(&packed.manifest).unwrap();
        let layer = manifest["layers"][0].clone();
        let problem = |value: &serde_json::Value| unpack(value.to_string().as_bytes()).unwrap_err();
        manifest["layers"] = serde_json::json!([layer, layer]);
        assert!(problem(&manifest).starts_with("the manifest has 2 layers instead of one; "));
        manifest["layers"] = serde_json::json!([layer]);
        manifest["layers"][0]["mediaType"] = "application/gzip".into();
        assert!(problem(&manifest).contains("the layer has media type"));
        manifest["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        assert!(problem(&manifest).contains("the config has media type"));
        let entry = serde_json::json!({"mediaType": "m", "digest": Digest::of(b"x"), "size": 1});
        let one = serde_json::json!({"schemaVersion": 2, "manifests": [entry]});
        assert_eq!(
            unpack(one.to_string().as_bytes()),
            Ok(Unpacked::SingleEntryIndex(Digest::of(b"x")))
        );
        let two = serde_json::json!({"schemaVersion": 2, "manifests": [entry, entry]});
        assert!(problem(&two).contains("index of 2"));
    }
}

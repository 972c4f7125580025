//! The layout of a plugin in a registry: exactly what `wkg oci push` writes.
//!
//! One OCI manifest; a config of type `application/vnd.wasm.config.v0+json`; one layer of type
//! `application/wasm`, which is the component. The layer's digest is the plugin's identity: manifests of the
//! same component differ in dates and annotations, and clients add their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::manifest::{Descriptor, Document, Manifest, OCI_MANIFEST};

pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const WASM_LAYER: &str = "application/wasm";

/// What a component says about itself, for those who read the artifact without running it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Name of the file in listings, for example `llama-stack-0.7.wasm`.
    pub title: String,
    /// Interfaces it exports.
    pub exports: Vec<String>,
    /// Interfaces it imports; none, for a plugin that is to be loaded.
    pub imports: Vec<String>,
    /// The world it was built for.
    pub target: Option<String>,
    /// Annotations of the manifest: hints for people and catalogues, never truth.
    pub annotations: BTreeMap<String, String>,
    /// RFC 3339 time for `created`, from `SOURCE_DATE_EPOCH`. Without one the epoch itself is written, so
    /// that the same bytes give the same manifest whenever they are pushed.
    pub created: Option<String>,
}

impl Description {
    /// The digest of the manifest that a push of this component writes.
    pub fn manifest_digest(&self, component: &[u8]) -> Result<Digest, serde_json::Error> {
        pack(component, self).map(|packed| packed.manifest_digest)
    }
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

/// Builds config and manifest. A function of its arguments: same input, same bytes.
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
    let descriptor = |media_type: &str, digest: Digest, size: usize, title: Option<&String>| {
        let annotation = title.map(|t| ("org.opencontainers.image.title".to_owned(), t.clone()));
        Descriptor {
            media_type: media_type.to_owned(),
            digest,
            size: size as u64,
            artifact_type: None,
            annotations: annotation.into_iter().collect(),
            platform: None,
        }
    };
    let mut annotations = annotations.clone();
    annotations.insert(
        "org.opencontainers.image.created".to_owned(),
        created.to_owned(),
    );
    let titled = (!title.is_empty()).then_some(title);
    let manifest = serde_json::to_vec(&Manifest {
        schema_version: 2,
        media_type: OCI_MANIFEST.to_owned(),
        artifact_type: None,
        config: descriptor(WASM_CONFIG, Digest::of(&config), config.len(), None),
        layers: vec![descriptor(
            WASM_LAYER,
            layer_digest.clone(),
            component.len(),
            titled,
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

/// What a manifest leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpacked {
    /// A plugin's own manifest.
    Plugin(Box<Contents>),
    /// An index with one entry, which is the manifest to read.
    One(Digest),
}

/// The two blobs of a plugin, and the hints around them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) layer: Descriptor,
    pub(crate) config: Descriptor,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Reads a manifest as a plugin's. The error is a sentence about what it is instead.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Unpacked, String> {
    let manifest = match Document::parse(bytes)? {
        Document::Index(index) => {
            return match index.manifests.as_slice() {
                [only] => Ok(Unpacked::One(only.digest.clone())),
                several => Err(format!(
                    "it is an index of {} manifests; a plugin is the same for every platform, refer to its manifest",
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
            "its config is of type {:?} instead of {WASM_CONFIG}; push it with llsd plugin push or wkg oci push",
            config.media_type
        ));
    }
    match <[Descriptor; 1]>::try_from(layers) {
        Ok([layer]) if layer.media_type == WASM_LAYER => Ok(Unpacked::Plugin(Box::new(Contents {
            layer,
            config,
            annotations,
        }))),
        Ok([layer]) => Err(format!(
            "its layer is of type {:?} instead of {WASM_LAYER}",
            layer.media_type
        )),
        Err(layers) => Err(format!("it has {} layers instead of one", layers.len())),
    }
}

/// The layer that a config says it belongs to must be the one beside it.
pub(crate) fn check_config(config: &[u8], layer: &Digest) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        #[serde(default)]
        layer_digests: Vec<Digest>,
    }
    let Read { layer_digests } = serde_json::from_slice(config)
        .map_err(|error| format!("its config cannot be read: {error}"))?;
    match layer_digests.as_slice() {
        [] => Ok(()),
        [only] if only == layer => Ok(()),
        _ => Err("its config speaks of another layer".to_owned()),
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
    fn the_layout_is_the_one_of_the_cncf() {
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
    fn other_layouts_are_named_for_what_they_are() {
        let packed = pack(b"component", &description()).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_slice(&packed.manifest).unwrap();
        let layer = manifest["layers"][0].clone();
        let problem = |value: &serde_json::Value| unpack(value.to_string().as_bytes()).unwrap_err();
        manifest["layers"] = serde_json::json!([layer, layer]);
        assert_eq!(problem(&manifest), "it has 2 layers instead of one");
        manifest["layers"] = serde_json::json!([layer]);
        manifest["layers"][0]["mediaType"] = "application/gzip".into();
        assert!(problem(&manifest).contains("its layer is of type"));
        manifest["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        assert!(problem(&manifest).contains("its config is of type"));
        let entry = serde_json::json!({"mediaType": "m", "digest": Digest::of(b"x"), "size": 1});
        let one = serde_json::json!({"schemaVersion": 2, "manifests": [entry]});
        assert_eq!(
            unpack(one.to_string().as_bytes()),
            Ok(Unpacked::One(Digest::of(b"x")))
        );
        let two = serde_json::json!({"schemaVersion": 2, "manifests": [entry, entry]});
        assert!(problem(&two).contains("index of 2"));
    }
}

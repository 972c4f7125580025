//! Images as a hostile registry serves them.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use llsd_registry::Digest;
use serde_json::{Value, json};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// How a registry answers requests for an image.
#[derive(Debug, Clone)]
pub enum Image {
    /// It never answers.
    Silent,
    /// It answers, and sends one byte of the manifest each second.
    Dripping,
    /// It sends a manifest without end.
    Endless,
    /// It serves these bytes.
    Stored(Stored),
    /// It serves these bytes, but the layers at one byte each second.
    DrippingLayer(Stored),
}

/// The bytes of an image.
#[derive(Debug, Clone)]
pub struct Stored {
    pub(crate) manifest: Vec<u8>,
    pub(crate) media_type: &'static str,
    pub(crate) blobs: Vec<(String, Vec<u8>)>,
    pub(crate) layer: Option<String>,
}

impl Stored {
    /// An image with these labels and no layers.
    pub fn with_labels(labels: Value) -> Self {
        Self::new(labels, None)
    }

    /// An image whose labels contain a base configuration.
    pub fn with_base(yaml: &str) -> Self {
        Self::with_labels(json!({
            "io.llamastack.config.base64": STANDARD.encode(yaml),
            "io.llamastack.config.schema": "llama-stack/0.7",
        }))
    }

    /// An image whose labels point to `/config.yaml` in its only layer.
    pub fn with_layer(tar: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(tar).unwrap();
        let layer = encoder.finish().unwrap();
        let labels = json!({
            "io.llamastack.config.layer": Digest::of(&layer).to_string(),
            "io.llamastack.config.path": "/config.yaml",
            "io.llamastack.config.schema": "llama-stack/0.7",
        });
        Self::new(labels, Some(layer))
    }

    /// The artifact of a plugin.
    pub fn with_component(component: Vec<u8>) -> Self {
        let digest = |bytes: &[u8]| Digest::of(bytes).to_string();
        let config = json!({
            "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2",
            "layerDigests": [digest(&component)],
            "component": {"exports": [], "imports": []},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.wasm.config.v0+json", &config),
            "layers": [descriptor("application/wasm", &component)],
        });
        Self {
            manifest: manifest.to_string().into_bytes(),
            media_type: MANIFEST,
            blobs: vec![(digest(&config), config), (digest(&component), component)],
            layer: None,
        }
    }

    fn new(labels: Value, layer: Option<Vec<u8>>) -> Self {
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": []},
        });
        let config = config.to_string().into_bytes();
        let layers: Vec<Value> = layer.iter().map(|layer| descriptor(LAYER, layer)).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config), "layers": layers,
        });
        let digest = |bytes: &[u8]| Digest::of(bytes).to_string();
        let mut blobs = vec![(digest(&config), config)];
        let layer = layer.map(|layer| {
            let digest = digest(&layer);
            blobs.push((digest.clone(), layer));
            digest
        });
        Self {
            manifest: manifest.to_string().into_bytes(),
            media_type: MANIFEST,
            blobs,
            layer,
        }
    }
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": Digest::of(bytes).to_string(),
        "size": bytes.len(),
    })
}

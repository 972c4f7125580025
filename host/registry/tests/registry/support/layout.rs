//! Writes images as OCI layouts, which crane pushes unchanged.

use std::collections::BTreeMap;
use std::io::Write as _;

use llsd_registry::{Digest, Reference};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::RegistryServer;

/// The compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

/// A layer: its uncompressed content and its compression.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) tar: Vec<u8>,
    pub(crate) compression: Compression,
}

impl Layer {
    /// A layer with some files.
    pub(crate) fn with(files: &[(&str, &[u8])], compression: Compression) -> Self {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        Self {
            tar: builder.into_inner().unwrap(),
            compression,
        }
    }

    pub(crate) fn compressed(&self) -> Vec<u8> {
        match self.compression {
            Compression::Plain => self.tar.clone(),
            Compression::Gzip => gzip(&self.tar),
            Compression::Zstd => {
                let level = ruzstd::encoding::CompressionLevel::Fastest;
                ruzstd::encoding::compress_to_vec(&self.tar[..], level)
            }
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.compressed())
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An image to push.
#[derive(Clone, Default)]
pub(crate) struct Image {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) docker: bool,
    pub(crate) user: &'static str,
    pub(crate) env: Vec<&'static str>,
}

impl Image {
    pub(crate) fn labelled<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let labels = pairs
            .into_iter()
            .map(|(label, value)| (label.to_owned(), value))
            .collect();
        let layers = vec![Layer::with(
            &[("etc/os-release", b"test")],
            Compression::Gzip,
        )];
        Self {
            labels,
            layers,
            ..Self::default()
        }
    }
}

/// A layout on disk.
pub(crate) struct Layout {
    pub(crate) folder: TempDir,
}

impl Layout {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        std::fs::write(
            folder.path().join("oci-layout"),
            r#"{"imageLayoutVersion": "1.0.0"}"#,
        )
        .unwrap();
        Self { folder }
    }

    /// Adds a blob and returns its descriptor.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        std::fs::write(
            self.folder.path().join("blobs/sha256").join(digest.hex()),
            bytes,
        )
        .unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    pub(crate) fn json(&self, media_type: &str, value: &Value) -> Value {
        self.blob(media_type, &serde_json::to_vec(value).unwrap())
    }

    /// Adds an image for one architecture.
    pub(crate) fn image(&self, image: &Image, architecture: &str) -> Value {
        let (manifest_type, config_type, layer_type) = match image.docker {
            true => (
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar",
            ),
            false => (
                "application/vnd.oci.image.manifest.v1+json",
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar",
            ),
        };
        let layers: Vec<Value> = (image.layers.iter())
            .map(|layer| {
                let suffix = match (layer.compression, image.docker) {
                    (Compression::Plain, _) => "",
                    (Compression::Gzip, true) => ".gzip",
                    (Compression::Gzip, false) => "+gzip",
                    (Compression::Zstd, _) => "+zstd",
                };
                self.blob(&format!("{layer_type}{suffix}"), &layer.compressed())
            })
            .collect();
        let ids: Vec<_> = image
            .layers
            .iter()
            .map(|layer| Digest::of(&layer.tar))
            .collect();
        let config = json!({"architecture": architecture, "os": "linux",
            "config": {"User": image.user, "Labels": image.labels, "Env": image.env},
            "rootfs": {"type": "layers", "diff_ids": ids}});
        let config = self.json(config_type, &config);
        let manifest = json!({"schemaVersion": 2, "mediaType": manifest_type,
            "config": config, "layers": layers});
        let mut descriptor = self.json(manifest_type, &manifest);
        descriptor["platform"] = json!({"os": "linux", "architecture": architecture});
        descriptor
    }

    /// Adds an index over descriptors.
    pub(crate) fn index(&self, manifests: Vec<Value>) -> Value {
        let kind = "application/vnd.oci.image.index.v1+json";
        self.json(
            kind,
            &json!({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}),
        )
    }

    /// Pushes the manifest of a descriptor with crane.
    pub(crate) fn push(self, server: &RegistryServer, descriptor: &Value, rest: &str) -> Reference {
        let top = json!({"schemaVersion": 2, "manifests": [descriptor]});
        std::fs::write(self.folder.path().join("index.json"), top.to_string()).unwrap();
        let reference = server.reference(rest);
        let folder = self.folder.path().display().to_string();
        server.crane(&["push", &folder, &reference.to_string()]);
        reference
    }
}

/// Pushes an image for amd64.
pub(crate) fn push(server: &RegistryServer, image: &Image, rest: &str) -> Reference {
    let layout = Layout::new();
    let descriptor = layout.image(image, "amd64");
    layout.push(server, &descriptor, rest)
}

//! Manifests, indexes and image configs: the fields that this crate reads.
//!
//! The Docker and OCI formats have the same structure, so the same types read both. Unknown keys are
//! ignored. A document that is written back (see `labelling`) is edited as JSON to preserve them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded;
use crate::digest::Digest;
use crate::error::shortened;
use crate::labels::KeptLabels;

/// The most layers of an image, and the most manifests of an index. Container runtimes allow fewer than
/// two hundred layers.
const MAX_DESCRIPTORS: usize = 1024;
/// The most annotations of a manifest.
const MAX_ANNOTATIONS: usize = 256;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The annotation of a layer that contains its signature.
pub(crate) const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// The annotation of a layer that contains its file name.
pub(crate) const TITLE_ANNOTATION: &str = "org.opencontainers.image.title";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// The `Accept` header of manifest requests.
pub(crate) const ACCEPT_MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// A descriptor of a blob or manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    /// The media type of the content.
    #[serde(default)]
    pub(crate) media_type: String,
    /// The digest of the content.
    pub(crate) digest: Digest,
    /// The size of the content in bytes.
    pub(crate) size: u64,
    /// The type of the artifact, in lists of referrers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    /// The annotations that this crate uses. That of a signature layer contains the signature.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "used_annotations"
    )]
    pub(crate) annotations: BTreeMap<String, String>,
    /// The platform, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
}

/// Operating system and architecture of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The GOOS value, for example `linux`.
    #[serde(default)]
    pub os: String,
    /// The GOARCH value, for example `amd64`.
    #[serde(default)]
    pub architecture: String,
}

impl Default for Platform {
    /// Linux, on the architecture that this program was built for.
    fn default() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
        }
    }
}

/// The manifest of one image or artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    #[serde(default, deserialize_with = "bounded::list::<MAX_DESCRIPTORS, _, _>")]
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "all_annotations"
    )]
    pub(crate) annotations: BTreeMap<String, String>,
}

fn all_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    bounded::map::<MAX_ANNOTATIONS, D>(deserializer, |_| true)
}

fn used_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    bounded::map::<MAX_ANNOTATIONS, D>(deserializer, |key| {
        key == SIGNATURE_ANNOTATION || key == TITLE_ANNOTATION
    })
}

/// An index: images for several platforms, or the referrers of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Index {
    #[serde(default, deserialize_with = "bounded::list::<MAX_DESCRIPTORS, _, _>")]
    pub(crate) manifests: Vec<Descriptor>,
}

/// A manifest or an index. They are distinguished by structure, because the media type header is
/// unreliable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest(Box<Manifest>),
    Index(Index),
}

impl Document {
    /// Parses a manifest or index. The error describes the problem.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            #[serde(default)]
            schema_version: u32,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            config: Option<serde::de::IgnoredAny>,
        }
        let not_json = |error: serde_json::Error| {
            shortened(format!(
                "the manifest is not valid JSON or a field is invalid: {error}"
            ))
        };
        let shape: Shape = serde_json::from_slice(bytes).map_err(not_json)?;
        if shape.schema_version != 2 {
            return Err(format!(
                "manifest schema version {} is not supported; only version 2 is",
                shape.schema_version
            ));
        }
        match (shape.config.is_some(), shape.manifests.is_some()) {
            (true, false) => Ok(Self::Manifest(
                serde_json::from_slice(bytes).map_err(not_json)?,
            )),
            (false, true) => Ok(Self::Index(
                serde_json::from_slice(bytes).map_err(not_json)?,
            )),
            // A document with both keys could be a manifest to us and an index to a verifier.
            (true, true) => Err("the document is both a manifest and an index".to_owned()),
            (false, false) => Err("the document is neither a manifest nor an index".to_owned()),
        }
    }
}

impl Index {
    /// The image for a platform, otherwise any image for its operating system, because the configuration
    /// in an image does not depend on the architecture.
    pub(crate) fn choose(&self, requested: &Platform) -> Option<&Descriptor> {
        let is = |descriptor: &&Descriptor, os: &str, architecture: Option<&str>| {
            descriptor.platform.as_ref().is_some_and(|platform| {
                platform.os == os && architecture.is_none_or(|a| platform.architecture == a)
            })
        };
        let exact = |d: &&Descriptor| is(d, &requested.os, Some(&requested.architecture));
        let mut entries = self.manifests.iter();
        let only = (self.manifests.len() == 1).then(|| &self.manifests[0]);
        (entries.clone().find(exact))
            .or_else(|| entries.find(|d| is(d, &requested.os, None)))
            .or(only.filter(|descriptor| descriptor.platform.is_none()))
    }
}

impl Manifest {
    /// Whether the config blob is an image config, which has labels.
    pub(crate) fn is_image(&self) -> bool {
        matches!(self.config.media_type.as_str(), OCI_CONFIG | DOCKER_CONFIG)
    }
}

/// The fields of an image config that this crate reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ImageConfig {
    #[serde(default)]
    pub(crate) config: Option<RunConfig>,
    #[serde(default)]
    pub(crate) rootfs: Option<RootFs>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct RunConfig {
    #[serde(default, rename = "User")]
    pub(crate) user: Option<String>,
    #[serde(default, rename = "Labels")]
    pub(crate) labels: KeptLabels,
    #[serde(
        default,
        rename = "Env",
        deserialize_with = "bounded::list::<MAX_DESCRIPTORS, _, _>"
    )]
    pub(crate) env: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct RootFs {
    #[serde(default, deserialize_with = "bounded::list::<MAX_DESCRIPTORS, _, _>")]
    pub(crate) diff_ids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(platforms: &[(&str, &str)]) -> Index {
        let entry = |(os, arch): &(&str, &str)| Descriptor {
            media_type: OCI_MANIFEST.into(),
            digest: Digest::of(format!("{os}/{arch}").as_bytes()),
            size: 1,
            artifact_type: None,
            annotations: BTreeMap::new(),
            platform: Some(Platform {
                os: (*os).into(),
                architecture: (*arch).into(),
            }),
        };
        Index {
            manifests: platforms.iter().map(entry).collect(),
        }
    }

    fn chosen(index: &Index, os: &str, arch: &str) -> Option<String> {
        let requested = Platform {
            os: os.into(),
            architecture: arch.into(),
        };
        let platform = index.choose(&requested)?.platform.clone()?;
        Some(format!("{}/{}", platform.os, platform.architecture))
    }

    #[test]
    fn the_requested_platform_is_chosen_then_any_linux_never_an_attestation() {
        let all = index(&[
            ("unknown", "unknown"),
            ("linux", "arm64"),
            ("linux", "amd64"),
        ]);
        assert_eq!(
            chosen(&all, "linux", "amd64").as_deref(),
            Some("linux/amd64")
        );
        assert_eq!(
            chosen(&all, "linux", "s390x").as_deref(),
            Some("linux/arm64")
        );
        assert_eq!(
            chosen(&index(&[("unknown", "unknown")]), "linux", "amd64"),
            None
        );
        assert_eq!(
            chosen(&index(&[("windows", "amd64")]), "linux", "amd64"),
            None
        );
    }

    #[test]
    fn a_document_that_is_both_or_neither_is_refused() {
        let digest = Digest::of(b"");
        let config = format!(r#""config": {{"digest": "{digest}", "size": 0}}"#);
        for (text, problem) in [
            (
                format!(r#"{{"schemaVersion": 2, {config}, "manifests": []}}"#),
                "both",
            ),
            (r#"{"schemaVersion": 2}"#.to_owned(), "neither"),
            (format!(r#"{{"schemaVersion": 1, {config}}}"#), "version 1"),
            ("<html>".to_owned(), "not valid JSON"),
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_manifest_with_more_descriptors_or_annotations_than_its_limit_is_refused() {
        let digest = Digest::of(b"");
        let layers = format!(r#"{{"digest": "{digest}", "size": 0}},"#).repeat(MAX_DESCRIPTORS + 1);
        let annotations: String = (0..=MAX_ANNOTATIONS)
            .map(|n| format!(r#""{n}": "","#))
            .collect();
        let [layers, annotations] =
            [layers, annotations].map(|text| text[..text.len() - 1].to_owned());
        let config = format!(r#""config": {{"digest": "{digest}", "size": 0}}"#);
        for (text, problem) in [
            (
                format!(r#"{config}, "layers": [{layers}]"#),
                "1024 elements",
            ),
            (format!(r#""manifests": [{layers}]"#), "1024 elements"),
            (
                format!(r#"{config}, "annotations": {{{annotations}}}"#),
                "256 entries",
            ),
        ] {
            let text = format!(r#"{{"schemaVersion": 2, {text}}}"#);
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        // Annotations of a layer that nothing reads are not kept.
        let layer =
            format!(r#"{{"digest": "{digest}", "size": 0, "annotations": {{{annotations}}}}}"#);
        let text = format!(r#"{{"schemaVersion": 2, {config}, "layers": [{layer}]}}"#);
        let Ok(Document::Manifest(manifest)) = Document::parse(text.as_bytes()) else {
            panic!("{text}");
        };
        assert!(manifest.layers[0].annotations.is_empty());
    }

    #[test]
    fn the_message_about_an_invalid_manifest_is_short() {
        let text = format!(r#"{{"schemaVersion": "{}"}}"#, "x".repeat(100_000));
        let error = Document::parse(text.as_bytes()).unwrap_err();
        assert!(error.len() < 2000, "{}", error.len());
    }
}

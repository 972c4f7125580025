//! Manifests, indexes and image configs, as far as we read them.
//!
//! Docker's media types and OCI's name the same shapes, so both are read by the same types. Unknown
//! keys are ignored here; where a document is written back (see `image`), it is edited as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// What is sent as `Accept` when a manifest is asked for.
pub(crate) const ACCEPT_MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// A pointer to a blob or manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    /// What the bytes are.
    #[serde(default)]
    pub(crate) media_type: String,
    /// Their digest.
    pub(crate) digest: Digest,
    /// How many there are.
    pub(crate) size: u64,
    /// The kind of artifact, in lists of referrers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    /// Hints; on signature layers, the signature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// For which machines, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
}

/// Operating system and processor of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Go's name, for example `linux`.
    #[serde(default)]
    pub os: String,
    /// Go's name, for example `amd64`.
    #[serde(default)]
    pub architecture: String,
}

impl Default for Platform {
    /// Linux on the processor this program was built for.
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

/// One image or artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    #[serde(default)]
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Several images for several platforms, or the referrers of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Index {
    #[serde(default)]
    pub(crate) manifests: Vec<Descriptor>,
}

/// Either of the two, told apart by shape: the media type header is not always right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest(Box<Manifest>),
    Index(Index),
}

impl Document {
    /// Reads the bytes of a manifest. The error is a sentence about what is wrong.
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
        let not_json = |error: serde_json::Error| format!("the manifest cannot be read: {error}");
        let shape: Shape = serde_json::from_slice(bytes).map_err(not_json)?;
        if shape.schema_version != 2 {
            return Err(format!(
                "manifest schema version {} is not supported, only version 2 is",
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
            // A document that is both could be read as one thing by us and as another by a verifier.
            (true, true) => Err("the manifest is an image and an index at once".to_owned()),
            (false, false) => Err("the manifest is neither an image nor an index".to_owned()),
        }
    }
}

impl Index {
    /// The image for a platform; failing that any Linux image, since the configuration inside an
    /// image does not depend on the processor.
    pub(crate) fn choose(&self, wanted: &Platform) -> Option<&Descriptor> {
        let is = |descriptor: &&Descriptor, os: &str, architecture: Option<&str>| {
            descriptor.platform.as_ref().is_some_and(|platform| {
                platform.os == os && architecture.is_none_or(|a| platform.architecture == a)
            })
        };
        let exact = |d: &&Descriptor| is(d, &wanted.os, Some(&wanted.architecture));
        let mut entries = self.manifests.iter();
        let only = (self.manifests.len() == 1).then(|| &self.manifests[0]);
        (entries.clone().find(exact))
            .or_else(|| entries.find(|d| is(d, &wanted.os, None)))
            .or(only.filter(|descriptor| descriptor.platform.is_none()))
    }
}

impl Manifest {
    /// Whether its config blob is an image config, which has labels.
    pub(crate) fn is_image(&self) -> bool {
        matches!(self.config.media_type.as_str(), OCI_CONFIG | DOCKER_CONFIG)
    }
}

/// The part of an image config that concerns us.
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
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct RootFs {
    #[serde(default)]
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
        let wanted = Platform {
            os: os.into(),
            architecture: arch.into(),
        };
        let platform = index.choose(&wanted)?.platform.clone()?;
        Some(format!("{}/{}", platform.os, platform.architecture))
    }

    #[test]
    fn the_wanted_platform_is_chosen_then_any_linux_never_an_attestation() {
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
    fn a_document_that_is_two_things_or_none_is_refused() {
        let digest = Digest::of(b"");
        let config = format!(r#""config": {{"digest": "{digest}", "size": 0}}"#);
        for (text, problem) in [
            (
                format!(r#"{{"schemaVersion": 2, {config}, "manifests": []}}"#),
                "at once",
            ),
            (r#"{"schemaVersion": 2}"#.to_owned(), "neither"),
            (format!(r#"{{"schemaVersion": 1, {config}}}"#), "version 1"),
            ("<html>".to_owned(), "cannot be read"),
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}

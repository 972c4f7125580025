//! Fetches the signatures of a manifest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bundle::{self, SignedBundle};
use super::{Error, SIGN_PREDICATE, Signature};
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::session::Session;

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
pub(super) const SIMPLE_TYPE: &str = "cosign container image signature";
/// The size limit of a signature. Real ones have about a kilobyte, with certificates a few.
const MAX_SIGNATURE_BYTES: u64 = 256 << 10;
/// The most signatures that are read. Real releases have fewer.
const MAX_SIGNATURES: usize = 64;

/// Signatures in the `.sig` tag: an image whose layers are the signed messages and whose layer annotations
/// are the signatures.
pub(super) async fn from_tag(
    session: &Session,
    repository: &str,
    digest: &Digest,
    rejected: &mut Vec<String>,
) -> Result<Vec<Signature>, Error> {
    let tag = format!("sha256-{}.sig", digest.hex());
    let bytes = match session.get_manifest(repository, &tag).await {
        Err(RegistryError::NotFound { .. }) => return Ok(Vec::new()),
        other => other?.bytes,
    };
    let Ok(Document::Manifest(manifest)) = Document::parse(&bytes) else {
        rejected.push(format!("tag {tag} contains no signatures"));
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let layers = manifest
        .layers
        .iter()
        .filter(|layer| layer.media_type == SIMPLE_SIGNING);
    for layer in layers.take(MAX_SIGNATURES) {
        let location = format!("signature {} of tag {tag}", short(&layer.digest));
        let encoded = layer.annotations.get(SIGNATURE_ANNOTATION);
        let Some(signature) = encoded.and_then(|text| STANDARD.decode(text).ok()) else {
            rejected.push(format!("{location} has no valid base64 signature"));
            continue;
        };
        let message = session
            .get_blob(repository, layer, MAX_SIGNATURE_BYTES)
            .await?;
        let subject = simple_subject(&message);
        found.push(Signature {
            location,
            message,
            bytes: signature,
            subject,
        });
    }
    Ok(found)
}

/// Signatures in the bundles that refer to the manifest.
pub(super) async fn from_referrers(
    session: &Session,
    repository: &str,
    digest: &Digest,
    manifest_bytes: &[u8],
    rejected: &mut Vec<String>,
) -> Result<Vec<Signature>, Error> {
    let mut found = Vec::new();
    let all = session.referrers(repository, digest).await?;
    let is_bundle = |d: &&Descriptor| {
        d.artifact_type
            .as_deref()
            .is_none_or(|t| t.starts_with(BUNDLE))
    };
    for referrer in all.iter().filter(is_bundle).take(MAX_SIGNATURES) {
        let location = format!("bundle {}", short(&referrer.digest));
        let stored = session
            .get_manifest(repository, &referrer.digest.to_string())
            .await?;
        let Some(layer) = bundle_layer(&stored.bytes) else {
            continue;
        };
        let bytes = session
            .get_blob(repository, &layer, MAX_SIGNATURE_BYTES)
            .await?;
        match bundle::parse(&bytes, digest, manifest_bytes) {
            Ok(SignedBundle {
                message,
                signature,
                subject,
            }) => {
                found.push(Signature {
                    location,
                    message,
                    bytes: signature,
                    subject,
                });
            }
            Err(problem) => rejected.push(format!("{location} {problem}")),
        }
    }
    Ok(found)
}

fn bundle_layer(manifest: &[u8]) -> Option<Descriptor> {
    let Ok(Document::Manifest(manifest)) = Document::parse(manifest) else {
        return None;
    };
    let Manifest { layers, .. } = *manifest;
    layers
        .into_iter()
        .find(|layer| layer.media_type.starts_with(BUNDLE))
}

/// The digest of the manifest that a simple signing message refers to.
pub(super) fn simple_subject(message: &[u8]) -> Option<Digest> {
    #[derive(Deserialize)]
    struct Message {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        image: Image,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(rename = "docker-manifest-digest")]
        digest: Digest,
    }
    let Message { critical } = serde_json::from_slice(message).ok()?;
    // Newer releases of cosign write the predicate type of bundles here.
    let is_signature = critical.kind == SIMPLE_TYPE || critical.kind == SIGN_PREDICATE;
    is_signature.then_some(critical.image.digest)
}

fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

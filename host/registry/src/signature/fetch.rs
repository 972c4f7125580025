//! Fetches the signatures of a manifest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bundle::{self, SignedBundle};
use super::{Collected, SIGN_PREDICATE, Signature, SignedArtifact, Subject};
use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::manifest::{Descriptor, Document, Manifest, SIGNATURE_ANNOTATION};
use crate::session::Session;

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
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
    all: &mut Collected,
) {
    let tag = format!("sha256-{}.sig", digest.hex());
    let bytes = match session.get_manifest(repository, &tag).await {
        Ok(stored) => stored.bytes,
        Err(RegistryError::NotFound { .. }) => return,
        Err(error) => return all.failed.push(error),
    };
    let Ok(Document::Manifest(manifest)) = Document::parse(&bytes) else {
        all.rejected
            .push(format!("tag {tag} contains no signatures"));
        return;
    };
    let layers = manifest
        .layers
        .iter()
        .filter(|layer| layer.media_type == SIMPLE_SIGNING);
    for layer in layers.take(MAX_SIGNATURES) {
        let location = format!("signature {} of tag {tag}", short(&layer.digest));
        let encoded = layer.annotations.get(SIGNATURE_ANNOTATION);
        let Some(signature) = encoded.and_then(|text| STANDARD.decode(text).ok()) else {
            all.rejected
                .push(format!("{location} has no valid base64 signature"));
            continue;
        };
        match session
            .get_blob(repository, layer, MAX_SIGNATURE_BYTES)
            .await
        {
            Ok(message) => all.signatures.push(Signature {
                location,
                subject: simple_subject(&message),
                message,
                bytes: signature,
                attestation: None,
                certified: None,
            }),
            Err(error) => unreadable(all, &location, error),
        }
    }
}

/// Signatures in the bundles that refer to the manifest. The fallback tag is read if the referrers API
/// fails or knows none: the registry may have got its API after the bundles were attached.
pub(super) async fn from_referrers(
    session: &Session,
    repository: &str,
    artifact: &SignedArtifact<'_>,
    all: &mut Collected,
) {
    let mut referrers = match session.referrers(repository, artifact.digest).await {
        Ok(found) => found,
        // Without the API most registries return 404, some another error.
        Err(RegistryError::NotFound { .. } | RegistryError::Refused { .. }) => Vec::new(),
        Err(error) => {
            unreadable(all, "the list of referrers", error);
            Vec::new()
        }
    };
    if referrers.is_empty() {
        match session
            .referrers_from_tag(repository, artifact.digest)
            .await
        {
            Ok(found) => referrers = found,
            Err(error) => all.failed.push(error),
        }
    }
    let is_bundle = |d: &&Descriptor| {
        d.artifact_type
            .as_deref()
            .is_none_or(|t| t.starts_with(BUNDLE))
    };
    for referrer in referrers.iter().filter(is_bundle).take(MAX_SIGNATURES) {
        let location = format!("bundle {}", short(&referrer.digest));
        match read_bundle(session, repository, referrer).await {
            Ok(None) => {}
            Ok(Some(bytes)) => match from_bundle(&location, bytes, artifact) {
                Ok(signature) => all.signatures.push(signature),
                Err(problem) => all.rejected.push(format!("{location} {problem}")),
            },
            Err(error) => unreadable(all, &location, error),
        }
    }
}

/// The signature in a bundle. The error completes a sentence about the bundle.
pub(super) fn from_bundle(
    location: &str,
    bytes: Vec<u8>,
    artifact: &SignedArtifact<'_>,
) -> Result<Signature, String> {
    let SignedBundle {
        message,
        signature,
        subject,
        attestation,
        is_certified,
    } = bundle::parse(&bytes, artifact.digest, artifact.manifest)?;
    Ok(Signature {
        location: location.to_owned(),
        message,
        bytes: signature,
        subject,
        attestation,
        certified: is_certified.then_some(bytes),
    })
}

/// The bundle of a referrer; `None` if it has none.
async fn read_bundle(
    session: &Session,
    repository: &str,
    referrer: &Descriptor,
) -> Result<Option<Vec<u8>>, RegistryError> {
    let stored = session
        .get_manifest(repository, &referrer.digest.to_string())
        .await?;
    match bundle_layer(&stored.bytes) {
        Some(layer) => session
            .get_blob(repository, &layer, MAX_SIGNATURE_BYTES)
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// Records a signature that could not be read. Everyone who may push can attach one that dangles, so only
/// a transient error may be the reason for the whole verification.
fn unreadable(all: &mut Collected, location: &str, error: RegistryError) {
    all.rejected
        .push(format!("{location} cannot be read ({})", error.reason()));
    if error.is_transient() {
        all.failed.push(error);
    }
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

/// The manifest and the repository that a simple signing message refers to.
pub(super) fn simple_subject(message: &[u8]) -> Subject {
    #[derive(Deserialize)]
    struct Message {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        #[serde(default)]
        identity: Identity,
        image: Image,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Default, Deserialize)]
    struct Identity {
        #[serde(default, rename = "docker-reference")]
        repository: String,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(rename = "docker-manifest-digest")]
        digest: Digest,
    }
    let Ok(Message { critical }) = serde_json::from_slice(message) else {
        return Subject::default();
    };
    // Newer releases of cosign write the predicate type of bundles here.
    if critical.kind != SIMPLE_TYPE && critical.kind != SIGN_PREDICATE {
        return Subject::default();
    }
    Subject {
        digest: Some(critical.image.digest),
        repository: Some(critical.identity.repository).filter(|name| !name.is_empty()),
    }
}

fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

//! Checks cosign signatures made with a key pair, without a network beyond the registry itself.
//!
//! In: the digest of a manifest, the keys an installer trusts, and how many of them must have signed. Out:
//! which of them have. Both homes of a signature are looked into: the tag `sha256-<digest>.sig`, and bundles
//! attached as referrers (the referrers API, or its fallback tag). A signature counts only when it verifies
//! *and* what it signs is this digest. Keyless signatures need a transparency log and are not read.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::session::Session;

mod bundle;
mod key;

use bundle::Signed;
pub use key::{KeyError, PublicKey};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
const SIMPLE_TYPE: &str = "cosign container image signature";
/// What a bundle claims when it is a signature; attestations of the same key claim something else.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// A signature is about a kilobyte, with certificates a few.
const MAX_SIGNATURE_BYTES: u64 = 256 << 10;
/// More signatures than any release has; beyond it somebody is filling the list.
const MAX_SIGNATURES: usize = 64;

/// How much a failed check matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An artifact without enough signatures is refused.
    Enforce,
    /// It is used, and the failure is recorded.
    Audit,
    /// Signatures are not looked at.
    Skip,
}

/// Whose signatures an installer wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// How much a failure matters.
    pub level: Level,
    /// The keys that count.
    pub keys: Vec<PublicKey>,
    /// How many of them must have signed; at least one.
    pub threshold: usize,
}

impl Verification {
    /// No check at all.
    pub fn skip() -> Self {
        Self {
            level: Level::Skip,
            keys: Vec::new(),
            threshold: 1,
        }
    }

    /// One signature by any of these keys, or refusal.
    pub fn enforce(keys: Vec<PublicKey>) -> Self {
        Self {
            level: Level::Enforce,
            keys,
            threshold: 1,
        }
    }
}

/// Why an artifact does not count as signed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The rule demands signatures and names no key, or fewer keys than signatures.
    #[error(
        "the rule wants {threshold} signature(s) and lists {keys} different key(s); add keys or lower the threshold"
    )]
    NotEnoughKeys {
        /// Signatures wanted.
        threshold: usize,
        /// Keys listed.
        keys: usize,
    },
    /// There is no signature at all.
    #[error("{digest} is not signed; sign it with cosign sign --key")]
    Unsigned {
        /// The manifest.
        digest: Digest,
    },
    /// There are signatures, but not (enough of) the wanted ones.
    #[error(
        "{digest} has {valid} valid signature(s) of trusted keys, {threshold} wanted; {} not accepted: {}",
        .rejected.len(), .rejected.join(", ")
    )]
    NotEnoughSignatures {
        /// The manifest.
        digest: Digest,
        /// Trusted keys with a valid signature.
        valid: usize,
        /// How many are wanted.
        threshold: usize,
        /// Why each of the others did not count.
        rejected: Vec<String>,
    },
    /// The signatures could not be fetched.
    #[error("the signatures could not be read from the registry")]
    Registry(#[from] RegistryError),
}

/// One signature as found: what was signed, and the mark.
struct Signature {
    place: String,
    message: Vec<u8>,
    mark: Vec<u8>,
    /// The manifest that the signed text names, and `None` when it names none.
    subject: Option<Digest>,
}

/// The trusted keys that signed this manifest, by fingerprint.
pub(crate) async fn verify(
    session: &Session,
    repository: &str,
    manifest_digest: &Digest,
    manifest_bytes: &[u8],
    verification: &Verification,
) -> Result<BTreeSet<String>, Error> {
    let threshold = verification.threshold.max(1);
    let keys: BTreeSet<_> = verification
        .keys
        .iter()
        .map(PublicKey::fingerprint)
        .collect();
    if keys.len() < threshold {
        return Err(Error::NotEnoughKeys {
            threshold,
            keys: keys.len(),
        });
    }
    let mut rejected = Vec::new();
    let mut found = tagged(session, repository, manifest_digest, &mut rejected).await?;
    let bundles = attached(
        session,
        repository,
        manifest_digest,
        manifest_bytes,
        &mut rejected,
    );
    found.extend(bundles.await?);
    if found.is_empty() && rejected.is_empty() {
        return Err(Error::Unsigned {
            digest: manifest_digest.clone(),
        });
    }
    judge(
        &found,
        manifest_digest,
        &verification.keys,
        threshold,
        rejected,
    )
}

fn judge(
    found: &[Signature],
    digest: &Digest,
    keys: &[PublicKey],
    threshold: usize,
    mut rejected: Vec<String>,
) -> Result<BTreeSet<String>, Error> {
    let mut valid = BTreeSet::new();
    for Signature {
        place,
        message,
        mark,
        subject,
    } in found
    {
        let signer = keys.iter().find(|key| key.verifies(message, mark));
        match (signer, subject) {
            (None, _) => rejected.push(format!("{place} is by no trusted key")),
            (Some(_), Some(other)) if other != digest => {
                rejected.push(format!("{place} was made for {other}"));
            }
            (Some(_), None) => rejected.push(format!("{place} does not say what it signs")),
            (Some(key), Some(_)) => {
                valid.insert(key.fingerprint());
            }
        }
    }
    match valid.len() >= threshold {
        true => Ok(valid),
        false => Err(Error::NotEnoughSignatures {
            digest: digest.clone(),
            valid: valid.len(),
            threshold,
            rejected,
        }),
    }
}

/// The `.sig` tag: an image whose layers are the signed texts and whose annotations are the marks.
async fn tagged(
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
        rejected.push(format!("tag {tag} holds no signatures"));
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let layers = manifest
        .layers
        .iter()
        .filter(|layer| layer.media_type == SIMPLE_SIGNING);
    for layer in layers.take(MAX_SIGNATURES) {
        let place = format!("signature {} of tag {tag}", short(&layer.digest));
        let mark = layer.annotations.get(SIGNATURE_ANNOTATION);
        let Some(mark) = mark.and_then(|text| STANDARD.decode(text).ok()) else {
            rejected.push(format!("{place} has no readable mark"));
            continue;
        };
        let message = session
            .get_blob(repository, layer, MAX_SIGNATURE_BYTES)
            .await?;
        let subject = simple_subject(&message);
        found.push(Signature {
            place,
            message,
            mark,
            subject,
        });
    }
    Ok(found)
}

/// Bundles that refer to the manifest.
async fn attached(
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
        let place = format!("bundle {}", short(&referrer.digest));
        let stored = session
            .get_manifest(repository, &referrer.digest.to_string())
            .await?;
        let Some(layer) = bundle_layer(&stored.bytes) else {
            continue;
        };
        let bytes = session
            .get_blob(repository, &layer, MAX_SIGNATURE_BYTES)
            .await?;
        match bundle::read(&bytes, digest, manifest_bytes) {
            Ok(Signed {
                message,
                mark,
                subject,
            }) => {
                found.push(Signature {
                    place,
                    message,
                    mark,
                    subject,
                });
            }
            Err(problem) => rejected.push(format!("{place} {problem}")),
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

/// The manifest that a simple signing text speaks about.
fn simple_subject(message: &[u8]) -> Option<Digest> {
    #[derive(Deserialize)]
    struct Text {
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
    let Text { critical } = serde_json::from_slice(message).ok()?;
    // Newer releases write the predicate of bundles here too.
    let is_signature = critical.kind == SIMPLE_TYPE || critical.kind == SIGN_PREDICATE;
    is_signature.then_some(critical.image.digest)
}

fn short(digest: &Digest) -> &str {
    &digest.hex()[..12]
}

#[cfg(test)]
mod tests;

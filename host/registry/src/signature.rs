//! Verifies cosign signatures, made with a key pair or keyless. Only the registry is contacted.
//!
//! In: the digest of a manifest, the trusted keys and identities, and the number of them that must have
//! signed. Out: who has signed. Signatures are read from the tag `sha256-<digest>.sig` and from bundles
//! attached as referrers (the referrers API, or its fallback tag). A form that cannot be read does not
//! stop the others. A signature counts only if it is valid, signs this digest, *and* names no other
//! repository than the requested one. A rule can also require attestations: statements of a predicate
//! type about this digest, signed by a trusted signer. A keyless signature is a bundle with a certificate,
//! which is verified offline, against a trusted root that the installer provides.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::reference::Reference;
use crate::session::Session;

mod bundle;
mod fetch;
mod identity;
mod key;
mod ring_provider;
mod trusted_root;

pub use identity::{Identity, IdentityError};
pub use key::{KeyError, PublicKey};
pub use trusted_root::{MAX_TRUSTED_ROOT_BYTES, TrustedRoot, TrustedRootError};

/// The predicate type of a signature. Attestations by the same key have another predicate type.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// What happens if the signatures are not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The artifact is refused.
    Enforce,
    /// The artifact is used, and the failure is recorded.
    Audit,
    /// Signatures are not checked.
    Skip,
}

/// The signatures that a rule requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// What happens if they are missing.
    pub level: Level,
    /// The trusted keys.
    pub keys: Vec<PublicKey>,
    /// The trusted identities of keyless signatures.
    pub identities: Vec<Identity>,
    /// What the certificates of keyless signatures are verified against. Required for identities.
    pub trusted_root: Option<TrustedRoot>,
    /// The number of keys and identities that must have signed, at least one.
    pub threshold: usize,
    /// Whether signatures that name no repository are rejected. Bundles by `cosign sign` name one only
    /// with `-a docker-reference=…`.
    pub require_repository: bool,
    /// The predicate types of the attestations that a trusted key or identity must have signed.
    pub attestations: BTreeSet<String>,
}

impl Verification {
    /// Requires no signatures.
    pub fn skip() -> Self {
        Self {
            level: Level::Skip,
            keys: Vec::new(),
            identities: Vec::new(),
            trusted_root: None,
            threshold: 1,
            require_repository: false,
            attestations: BTreeSet::new(),
        }
    }

    /// Requires a signature by one of these keys.
    pub fn enforce(keys: Vec<PublicKey>) -> Self {
        Self {
            level: Level::Enforce,
            keys,
            ..Self::skip()
        }
    }

    /// The number of trusted keys and identities among signers, as [`crate::SignatureStatus::Signed`] lists
    /// them. Signers of the same identity count once.
    pub fn count_trusted<'a>(&self, signers: impl IntoIterator<Item = &'a String>) -> usize {
        let keys: BTreeSet<_> = self.keys.iter().map(PublicKey::fingerprint).collect();
        let mut trusted = BTreeSet::new();
        for signer in signers {
            let mut identities = self.identities.iter();
            if keys.contains(signer) {
                trusted.insert(signer.clone());
            } else if let Some(position) = identities.position(|one| one.is_of(signer)) {
                trusted.insert(position.to_string());
            }
        }
        trusted.len()
    }

    /// The number of different keys and identities.
    fn available(&self) -> usize {
        let keys: BTreeSet<_> = self.keys.iter().map(PublicKey::fingerprint).collect();
        keys.len() + self.identities.len()
    }
}

/// Why an artifact is not sufficiently signed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The rule requires more signatures than it has keys and identities.
    #[error(
        "the rule requires {threshold} signature(s) and has {signers} different key(s) and identities; add some or lower the threshold"
    )]
    NotEnoughSigners {
        /// The number of required signatures.
        threshold: usize,
        /// The number of different keys and identities.
        signers: usize,
    },
    /// The rule has identities, but nothing to verify certificates against.
    #[error("the rule has identities, but no trusted root; add one")]
    NoTrustedRoot,
    /// There is no signature.
    #[error("{digest} is not signed; sign it with cosign sign")]
    Unsigned {
        /// The manifest.
        digest: Digest,
    },
    /// Too few trusted keys and identities have signed.
    #[error(
        "{digest} has {valid} valid signature(s) by trusted signers, {threshold} required; {} rejected: {}",
        .rejected.len(), first_few(.rejected)
    )]
    NotEnoughSignatures {
        /// The manifest.
        digest: Digest,
        /// The number of trusted keys and identities with a valid signature.
        valid: usize,
        /// The number that is required.
        threshold: usize,
        /// Why each other signature was rejected.
        rejected: Vec<String>,
    },
    /// A required attestation is missing.
    #[error(
        "{digest} has no attestation of type {} by a trusted signer; add it with cosign attest --type",
        .missing.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" and ")
    )]
    MissingAttestations {
        /// The manifest.
        digest: Digest,
        /// The predicate types.
        missing: Vec<String>,
    },
    /// A request to the registry failed.
    #[error("failed to read the signatures from the registry")]
    Registry(#[from] RegistryError),
}

/// The most rejected signatures that a message lists. Everyone who may push can attach more.
const MAX_LISTED: usize = 8;

fn first_few(rejected: &[String]) -> String {
    let mut text = rejected[..rejected.len().min(MAX_LISTED)].join(", ");
    if rejected.len() > MAX_LISTED {
        text += ", …";
    }
    text
}

/// The artifact whose signatures are verified.
pub(crate) struct SignedArtifact<'a> {
    /// The reference that was requested, before the mirror rewrite.
    pub(crate) requested: &'a Reference,
    /// The digest of the manifest.
    pub(crate) digest: &'a Digest,
    /// The manifest.
    pub(crate) manifest: &'a [u8],
}

/// A signature that was found.
struct Signature {
    /// Where it was found, for messages.
    location: String,
    /// The signed bytes.
    message: Vec<u8>,
    /// The signature over `message`.
    bytes: Vec<u8>,
    subject: Subject,
    /// The predicate type, if the message is an attestation.
    attestation: Option<String>,
    /// The whole bundle, if it has a certificate.
    certified: Option<Vec<u8>>,
}

/// What a signed message refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Subject {
    /// The digest of a manifest.
    digest: Option<Digest>,
    /// The repository, as the signer wrote it.
    repository: Option<String>,
}

/// The signatures that were found, and what could not be used.
#[derive(Default)]
struct Collected {
    signatures: Vec<Signature>,
    /// Why each other signature was rejected.
    rejected: Vec<String>,
    /// Requests that failed.
    failed: Vec<RegistryError>,
}

/// The trusted signers of a manifest: fingerprints of keys, and certified signers as `subject (issuer)`.
pub(crate) async fn verify(
    session: &Session,
    repository: &str,
    artifact: &SignedArtifact<'_>,
    verification: &Verification,
) -> Result<BTreeSet<String>, Error> {
    let threshold = verification.threshold.max(1);
    let signers = verification.available();
    if signers < threshold {
        return Err(Error::NotEnoughSigners { threshold, signers });
    }
    if !verification.identities.is_empty() && verification.trusted_root.is_none() {
        return Err(Error::NoTrustedRoot);
    }
    let mut all = Collected::default();
    fetch::from_tag(session, repository, artifact.digest, &mut all).await;
    fetch::from_referrers(session, repository, artifact, &mut all).await;
    conclude(all, artifact, verification)
}

/// The trusted signers, or the reason why they are too few. A failed request is the reason only if the
/// signatures that could be read are not sufficient.
fn conclude(
    all: Collected,
    artifact: &SignedArtifact<'_>,
    verification: &Verification,
) -> Result<BTreeSet<String>, Error> {
    let Collected {
        signatures,
        mut rejected,
        failed,
    } = all;
    let mut valid = BTreeSet::new();
    let mut missing = verification.attestations.clone();
    for signature in &signatures {
        let location = &signature.location;
        let signer = signer(signature, artifact, verification);
        match (signer, &signature.attestation) {
            (Ok(signer), None) => {
                // Two signers of one identity count once, so the list has at most one signer for each key and
                // identity.
                if verification.count_trusted(valid.iter().chain([&signer])) > valid.len() {
                    valid.insert(signer);
                }
            }
            (Ok(_), Some(predicate)) => {
                missing.remove(predicate);
                let predicate = shortened(predicate);
                rejected.push(format!(
                    "{location} has predicate type {predicate:?}, which is not a signature"
                ));
            }
            (Err(problem), _) => rejected.push(format!("{location} {problem}")),
        }
    }
    let threshold = verification.threshold.max(1);
    if valid.len() >= threshold && missing.is_empty() {
        return Ok(valid);
    }
    let first_transient = failed.iter().find(|error| error.is_transient());
    if let Some(error) = first_transient.or(failed.first()) {
        return Err(Error::Registry(error.clone()));
    }
    let digest = artifact.digest.clone();
    if valid.len() >= threshold {
        let missing = missing.into_iter().collect();
        return Err(Error::MissingAttestations { digest, missing });
    }
    Err(match signatures.is_empty() && rejected.is_empty() {
        true => Error::Unsigned { digest },
        false => Error::NotEnoughSignatures {
            digest,
            valid: valid.len(),
            threshold,
            rejected,
        },
    })
}

/// The trusted signer that made a signature for the artifact. The error completes a sentence about the
/// signature.
fn signer(
    signature: &Signature,
    artifact: &SignedArtifact<'_>,
    verification: &Verification,
) -> Result<String, String> {
    let Signature {
        message,
        bytes,
        subject: Subject { digest, repository },
        ..
    } = signature;
    let mut keys = verification.keys.iter();
    let signer = match keys.find(|key| key.verifies(message, bytes)) {
        Some(key) => key.fingerprint(),
        None => certified_signer(signature, artifact, verification)?,
    };
    match digest {
        Some(digest) if digest == artifact.digest => {}
        Some(other) => return Err(format!("signs {other}")),
        None => return Err("does not name a manifest".to_owned()),
    }
    let requested = artifact.requested.name();
    match repository.as_deref() {
        Some(named) if is_repository(named, &requested) => Ok(signer),
        Some(named) => Err(format!(
            "is for repository {:?} and not for {requested:?}; sign it there, with cosign sign",
            shortened(named)
        )),
        None if verification.require_repository => Err(format!(
            "names no repository; sign with cosign sign -a docker-reference={requested}"
        )),
        None => Ok(signer),
    }
}

/// The trusted identity whose certificate is in the bundle of a signature.
fn certified_signer(
    signature: &Signature,
    artifact: &SignedArtifact<'_>,
    verification: &Verification,
) -> Result<String, String> {
    let Some(root) = &verification.trusted_root else {
        return Err("is not by a trusted key".to_owned());
    };
    let Some(bundle) = &signature.certified else {
        return Err("is not by a trusted key, and is no bundle with a certificate".to_owned());
    };
    let signer = root.signer(bundle, &signature.message, artifact.digest)?;
    let recorded = signer.to_string();
    match verification
        .identities
        .iter()
        .any(|one| one.is_of(&recorded))
    {
        true => Ok(recorded),
        false => Err(format!(
            "is by {:?} of the issuer {:?}, which is not a trusted identity",
            shortened(&signer.subject),
            shortened(&signer.issuer)
        )),
    }
}

/// Whether a signed name is the requested repository. It may be written in another way, as
/// `index.docker.io/library/x`, and have a tag or digest.
fn is_repository(signed: &str, requested: &str) -> bool {
    let signed = signed.trim();
    let hub = signed
        .strip_prefix("index.docker.io/")
        .map(|rest| format!("docker.io/{rest}"));
    let parsed = hub.as_deref().unwrap_or(signed).parse::<Reference>();
    parsed.is_ok_and(|reference| reference.name() == requested)
}

/// The beginning of a string that someone else wrote, for messages.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

#[cfg(test)]
mod keyless_tests;
#[cfg(test)]
mod tests;

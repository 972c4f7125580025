//! Verifies cosign signatures made with a key pair. Only the registry is contacted.
//!
//! In: the digest of a manifest, the trusted keys, and the number of keys that must have signed. Out:
//! the keys that have signed. Signatures are read from the tag `sha256-<digest>.sig` and from bundles
//! attached as referrers (the referrers API, or its fallback tag). A signature counts only if it is
//! valid *and* signs this digest. Keyless signatures need a transparency log and are not supported.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::error::Error as RegistryError;
use crate::session::Session;

mod bundle;
mod fetch;
mod key;

pub use key::{KeyError, PublicKey};

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
    /// The number of keys that must have signed, at least one.
    pub threshold: usize,
}

impl Verification {
    /// Requires no signatures.
    pub fn skip() -> Self {
        Self {
            level: Level::Skip,
            keys: Vec::new(),
            threshold: 1,
        }
    }

    /// Requires a signature by one of these keys.
    pub fn enforce(keys: Vec<PublicKey>) -> Self {
        Self {
            level: Level::Enforce,
            keys,
            threshold: 1,
        }
    }
}

/// Why an artifact is not sufficiently signed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The rule requires more signatures than it has keys.
    #[error(
        "the rule requires {threshold} signature(s) and has {keys} different key(s); add keys or lower the threshold"
    )]
    NotEnoughKeys {
        /// The number of required signatures.
        threshold: usize,
        /// The number of different keys.
        keys: usize,
    },
    /// There is no signature.
    #[error("{digest} is not signed; sign it with cosign sign --key")]
    Unsigned {
        /// The manifest.
        digest: Digest,
    },
    /// Too few trusted keys have signed.
    #[error(
        "{digest} has {valid} valid signature(s) by trusted keys, {threshold} required; {} rejected: {}",
        .rejected.len(), .rejected.join(", ")
    )]
    NotEnoughSignatures {
        /// The manifest.
        digest: Digest,
        /// The number of trusted keys with a valid signature.
        valid: usize,
        /// The number that is required.
        threshold: usize,
        /// Why each other signature was rejected.
        rejected: Vec<String>,
    },
    /// A request to the registry failed.
    #[error("failed to read the signatures from the registry")]
    Registry(#[from] RegistryError),
}

/// A signature that was found.
struct Signature {
    /// Where it was found, for messages.
    location: String,
    /// The signed bytes.
    message: Vec<u8>,
    /// The signature over `message`.
    bytes: Vec<u8>,
    /// The digest of the manifest that `message` refers to, if it refers to one.
    subject: Option<Digest>,
}

/// The fingerprints of the trusted keys that signed a manifest.
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
    let mut found = fetch::from_tag(session, repository, manifest_digest, &mut rejected).await?;
    let bundles = fetch::from_referrers(
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
    count_signers(
        &found,
        manifest_digest,
        &verification.keys,
        threshold,
        rejected,
    )
}

/// The fingerprints of the keys with a valid signature for `digest`.
fn count_signers(
    found: &[Signature],
    digest: &Digest,
    keys: &[PublicKey],
    threshold: usize,
    mut rejected: Vec<String>,
) -> Result<BTreeSet<String>, Error> {
    let mut valid = BTreeSet::new();
    for Signature {
        location,
        message,
        bytes,
        subject,
    } in found
    {
        let signer = keys.iter().find(|key| key.verifies(message, bytes));
        match (signer, subject) {
            (None, _) => rejected.push(format!("{location} is not by a trusted key")),
            (Some(_), Some(other)) if other != digest => {
                rejected.push(format!("{location} signs {other}"));
            }
            (Some(_), None) => rejected.push(format!("{location} does not name a manifest")),
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

#[cfg(test)]
mod tests;

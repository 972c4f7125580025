//! Verifies bundles with a certificate against a trusted root, without any request.
//!
//! In: a `trusted_root.json` of Sigstore, which names certificate authorities, transparency logs and
//! timestamp authorities, and a bundle. Out: the signer that the certificate names. A bundle is accepted only
//! if its certificate chains to an authority of the root and was valid at a signed time; the current time
//! never counts, because such certificates are valid for minutes. If the root names transparency logs, the
//! signature must be in one of them. Whether the signer is trusted is decided by the caller.

use std::fmt;
use std::sync::Arc;

use sigstore_verify::trust_root::TrustedRoot as Authorities;
use sigstore_verify::types::{Bundle, Sha256Hash, SignatureContent};
use sigstore_verify::{VerificationPolicy, Verifier};

use super::identity::CertifiedSigner;
use super::{ring_provider, shortened};
use crate::digest::Digest;

/// The size limit of a trusted root. That of the public Sigstore instance has about 10 KiB.
pub const MAX_TRUSTED_ROOT_BYTES: usize = 256 << 10;

/// The size limit of the names of a signer, because they are stored and shown. Those of workflows have about
/// 150 bytes.
const MAX_SIGNER_BYTES: usize = 768;

/// The authorities that keyless signatures are verified against.
#[derive(Clone)]
pub struct TrustedRoot {
    digest: Digest,
    verifier: Arc<Verifier>,
    policy: VerificationPolicy,
}

/// Why a file is not a usable trusted root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustedRootError {
    /// Larger than the limit.
    #[error("has {0} bytes, more than the limit of {limit}", limit = MAX_TRUSTED_ROOT_BYTES)]
    TooLarge(usize),
    /// Not a trusted root, or one with invalid keys or certificates.
    #[error(
        "is not a valid trusted_root.json: {0}; write one with cosign trusted-root create, or download that of your Sigstore instance"
    )]
    Invalid(String),
    /// No certificate could ever be verified.
    #[error("names no certificate authority; add one with cosign trusted-root create --fulcio")]
    NoAuthority,
}

impl TrustedRoot {
    /// Parses a trusted root.
    pub fn parse(bytes: &[u8]) -> Result<Self, TrustedRootError> {
        if bytes.len() > MAX_TRUSTED_ROOT_BYTES {
            return Err(TrustedRootError::TooLarge(bytes.len()));
        }
        ring_provider::install();
        let invalid = |problem: String| TrustedRootError::Invalid(shortened(&problem).to_owned());
        let text = str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
        let root = Authorities::from_json(text).map_err(|error| invalid(error.to_string()))?;
        if root.certificate_authorities.is_empty() {
            return Err(TrustedRootError::NoAuthority);
        }
        let mut policy = VerificationPolicy::any_identity();
        // A private instance may have no log of signatures, or none of certificates.
        if root.tlogs.is_empty() {
            policy = policy.skip_tlog_unsafe();
        }
        if root.ctlogs.is_empty() {
            policy = policy.skip_sct();
        }
        let verifier = Verifier::new(&root).map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            digest: Digest::of(bytes),
            verifier: Arc::new(verifier),
            policy,
        })
    }

    /// The signer of `message`, which is the signed statement of the bundle `bytes` about the manifest with
    /// this digest. The error completes a sentence about the bundle.
    pub(super) fn signer(
        &self,
        bytes: &[u8],
        message: &[u8],
        digest: &Digest,
    ) -> Result<CertifiedSigner, String> {
        let untrusted = |problem: String| {
            let problem = shortened(&problem);
            format!("has a certificate that is not verified by the trusted root: {problem}")
        };
        let text = str::from_utf8(bytes).map_err(|error| untrusted(error.to_string()))?;
        let bundle = Bundle::from_json(text).map_err(|error| untrusted(error.to_string()))?;
        // What was parsed here must be what the caller parsed and decides by.
        match &bundle.content {
            SignatureContent::DsseEnvelope(envelope) if envelope.pae() == message => {}
            _ => return Err(
                "has a certificate, but no in-toto statement; sign with cosign sign of version 3"
                    .to_owned(),
            ),
        }
        // The first version of bundles may have only the promise of a log.
        if self.policy.verifies_tlog() && !bundle.has_inclusion_proof() {
            return Err(untrusted("no proof of a log entry".to_owned()));
        }
        let digest = Sha256Hash::from_hex(digest.hex()).map_err(|e| untrusted(e.to_string()))?;
        let verified = self.verifier.verify(digest, &bundle, &self.policy);
        let verified = verified.map_err(|error| untrusted(error.to_string()))?;
        let (Some(subject), Some(issuer)) = (verified.identity(), verified.issuer()) else {
            return Err("has a certificate that names no subject or no issuer".to_owned());
        };
        let subject = subject.as_str();
        if subject.len() + issuer.len() > MAX_SIGNER_BYTES {
            return Err(format!(
                "has a certificate whose subject and issuer have more than {MAX_SIGNER_BYTES} bytes"
            ));
        }
        Ok(CertifiedSigner {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
        })
    }
}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustedRoot({})", self.digest)
    }
}

impl PartialEq for TrustedRoot {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TrustedRoot {}

//! Public keys in PEM, as `cosign generate-key-pair` and `openssl` write them.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

use crate::digest::Digest;

/// A public key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    fingerprint: Digest,
    kind: Kind,
    point: Vec<u8>,
}

/// Why a string is not a supported public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a public key in PEM.
    #[error("not a public key in PEM; use the content of cosign.pub (-----BEGIN PUBLIC KEY-----)")]
    NotPem,
    /// The type of the key is not supported.
    #[error(
        "the key must be an ECDSA P-256, ECDSA P-384 or Ed25519 key; create one with cosign generate-key-pair"
    )]
    Unsupported,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Ed25519,
}

/// The bytes before the point, and the length of the point, for each kind of key (RFC 5480, RFC 8410).
/// The encoding is DER, so these bytes are always the same.
const HEADERS: [(Kind, &[u8], usize); 3] = [
    (
        Kind::P256,
        &[
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ],
        65,
    ),
    (
        Kind::P384,
        &[
            0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x05, 0x2b, 0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
        ],
        97,
    ),
    (
        Kind::Ed25519,
        &[
            0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
        ],
        32,
    ),
];

impl PublicKey {
    /// Parses a key in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| KeyError::NotPem)?;
        for (kind, header, length) in HEADERS {
            if let Some(point) = der.strip_prefix(header)
                && point.len() == length
            {
                let fingerprint = Digest::of(&der);
                return Ok(Self {
                    fingerprint,
                    kind,
                    point: point.to_vec(),
                });
            }
        }
        Err(KeyError::Unsupported)
    }

    /// The digest of the encoded key, which identifies it in status and logs.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.to_string()
    }

    /// Whether `signature` is a signature over `message` by this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            Kind::P256 => &ECDSA_P256_SHA256_ASN1,
            Kind::P384 => &ECDSA_P384_SHA384_ASN1,
            Kind::Ed25519 => &ED25519,
        };
        UnparsedPublicKey::new(algorithm, &self.point)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint)
    }
}

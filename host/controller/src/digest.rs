//! Digests as text.

use sha2::{Digest, Sha256};

/// `sha256:…` of a text.
pub(crate) fn of(text: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

/// As many digits of the digest of a text as fit into a label.
pub(crate) fn short(text: &str) -> String {
    const LONGEST: usize = 62;
    let mut digits = hex(&Sha256::digest(text.as_bytes()));
    digits.truncate(LONGEST);
    digits
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! `sha256:…` of bytes.

use sha2::{Digest, Sha256};

/// The digest as registries write it.
pub(crate) fn of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

/// The digest's hexadecimal digits alone.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

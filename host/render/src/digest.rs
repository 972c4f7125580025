//! SHA-256 as text.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// `sha256:…` of some bytes, as registries write it.
pub fn of(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex(bytes.as_ref()))
}

/// As many digits of the digest of a text as a label can hold, and an even number.
pub fn label(text: &str) -> String {
    const LONGEST: usize = 62;
    let mut digits = hex(text.as_bytes());
    digits.truncate(LONGEST);
    digits
}

/// The digest's hexadecimal digits alone.
pub(crate) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_names_its_algorithm() {
        assert_eq!(
            super::of(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

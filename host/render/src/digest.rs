//! SHA-256 digests as strings.

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};

/// `sha256:…` of some bytes, in the format of OCI.
pub fn of(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex(bytes.as_ref()))
}

/// The digest of a string, truncated to an even number of digits that fits in a label value.
pub fn label(text: &str) -> String {
    const MAX_DIGITS: usize = 62;
    let mut digits = hex(text.as_bytes());
    digits.truncate(MAX_DIGITS);
    digits
}

/// The hexadecimal digits of the digest, without the algorithm.
pub(crate) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_has_its_algorithm_as_prefix() {
        assert_eq!(
            super::of(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

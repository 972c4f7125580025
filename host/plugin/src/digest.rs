//! Digests as text: `sha256:` and 64 hexadecimal digits.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// `sha256:…` of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    push_hex(&mut text, &Sha256::digest(bytes));
    text
}

/// Lower-case hexadecimal digits of some bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_names_its_algorithm() {
        assert_eq!(
            super::sha256(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

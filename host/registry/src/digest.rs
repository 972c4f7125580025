//! Content digests.
//!
//! Only sha256 is accepted. All registries and signature formats in use support it, and a second
//! algorithm would give the same content a second identity.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sha256 digest, printed as `sha256:<64 hex digits>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

/// A string is not a valid digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid digest; write sha256: followed by 64 lower-case hex digits")]
pub struct ParseDigestError(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The 64 hex digits without `sha256:`.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() == 64 && hex.bytes().all(is_hex) {
            Ok(Self(hex.to_owned()))
        } else {
            Err(ParseDigestError(text.chars().take(90).collect()))
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes and counts a stream of bytes.
pub(crate) struct Hasher {
    sha: Context,
    count: u64,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self {
            sha: Context::new(&SHA256),
            count: 0,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.count += bytes.len() as u64;
    }

    /// The number of bytes so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(HEXLOWER.encode(self.sha.finish().as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_empty_content_is_correct() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse::<Digest>().unwrap(), Digest::of(b""));
    }

    #[test]
    fn other_algorithms_short_strings_and_upper_case_are_refused() {
        for text in [
            "",
            "sha256:",
            "sha256:abcd",
            "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "sha256:../../../../../../../../../../../../../../../../../../../../../../",
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}

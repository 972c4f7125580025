//! Base configurations that were parsed before. Most resources share a few of them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use llsd_render::{digest, yaml};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;

/// The most base configurations.
const MAX_BASES: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// A longer one is parsed each time.
const MAX_BYTES: usize = 64 << 10;

/// Parsed base configurations, by the digest of their text.
pub(crate) struct ParsedBases(Mutex<LruCache<String, Parsed>>);

/// A base configuration.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub(crate) config: Arc<Value>,
    /// Digest of its text.
    pub(crate) digest: String,
    bytes: usize,
}

impl Default for ParsedBases {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_BASES)))
    }
}

impl ParsedBases {
    /// Parses a base configuration, unless it is known.
    pub(crate) fn parse(&self, text: &str) -> Result<Parsed, yaml::Error> {
        let digest = digest::of(text);
        if let Some(known) = self.0.lock().get(&digest) {
            return Ok(known.clone());
        }
        let parsed = Parsed {
            config: Arc::new(yaml::read(text)?),
            digest: digest.clone(),
            bytes: text.len(),
        };
        if parsed.bytes <= MAX_BYTES {
            self.0.lock().put(digest, parsed.clone());
        }
        Ok(parsed)
    }

    /// The bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().iter().map(|(_, one)| one.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_parsed_again_only_if_others_were_used_since() {
        let bases = ParsedBases::default();
        let first = bases.parse("version: 2").unwrap();
        for number in 1..MAX_BASES.get() {
            bases.parse(&format!("version: {}", 100 + number)).unwrap();
        }
        let again = bases.parse("version: 2").unwrap();
        assert!(Arc::ptr_eq(&first.config, &again.config));
        for number in 0..MAX_BASES.get() {
            bases.parse(&format!("version: {}", 100 + number)).unwrap();
        }
        let parsed = bases.parse("version: 2").unwrap();
        assert!(!Arc::ptr_eq(&first.config, &parsed.config));
        assert_eq!(first.config, parsed.config);
    }

    #[test]
    fn long_bases_and_invalid_ones_are_not_kept() {
        let bases = ParsedBases::default();
        let long = format!("text: {}", "a".repeat(MAX_BYTES));
        assert!(bases.parse(&long).is_ok());
        assert!(bases.parse("a: [").is_err());
        assert_eq!(bases.bytes(), 0);
    }
}

//! Base configurations that were parsed before. Most resources share a few of them.

use std::collections::VecDeque;
use std::sync::Arc;

use llsd_render::{digest, yaml};
use parking_lot::Mutex;
use serde_json::Value;

/// The most base configurations.
const MAX_BASES: usize = 16;
/// A longer one is parsed each time.
const MAX_BYTES: usize = 64 << 10;

/// Parsed base configurations, the last used one first.
#[derive(Default)]
pub(crate) struct ParsedBases(Mutex<VecDeque<Parsed>>);

/// A base configuration.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub(crate) config: Arc<Value>,
    /// Digest of its text.
    pub(crate) digest: String,
    bytes: usize,
}

impl ParsedBases {
    /// Parses a base configuration, unless it is known.
    pub(crate) fn parse(&self, text: &str) -> Result<Parsed, yaml::Error> {
        let digest = digest::of(text);
        if let Some(known) = self.take(&digest) {
            self.put(known.clone());
            return Ok(known);
        }
        let parsed = Parsed {
            config: Arc::new(yaml::read(text)?),
            digest,
            bytes: text.len(),
        };
        if parsed.bytes <= MAX_BYTES {
            self.put(parsed.clone());
        }
        Ok(parsed)
    }

    /// The bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().iter().map(|one| one.bytes).sum()
    }

    fn take(&self, digest: &str) -> Option<Parsed> {
        let mut all = self.0.lock();
        let position = all.iter().position(|one| one.digest == digest)?;
        all.remove(position)
    }

    fn put(&self, parsed: Parsed) {
        let mut all = self.0.lock();
        all.push_front(parsed);
        all.truncate(MAX_BASES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_parsed_again_only_if_others_were_used_since() {
        let bases = ParsedBases::default();
        let first = bases.parse("version: 2").unwrap();
        for number in 0..MAX_BASES - 1 {
            bases.parse(&format!("version: {}", 100 + number)).unwrap();
        }
        let again = bases.parse("version: 2").unwrap();
        assert!(Arc::ptr_eq(&first.config, &again.config));
        for number in 0..MAX_BASES {
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

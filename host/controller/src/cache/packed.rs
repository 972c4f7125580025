//! JSON in few bytes.
//!
//! The caches hold all objects of a cluster, but a reconciliation reads few of them. A parsed object needs
//! several times the memory of its text, and the texts of one kind resemble each other. So the caches keep
//! the text, compressed with the first one as the dictionary, and parse it when it is read.

use std::marker::PhantomData;
use std::sync::OnceLock;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The compressor does not look farther back.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;

/// Packs values of one type that resemble each other.
pub(crate) struct Packer<T> {
    dictionary: OnceLock<Box<[u8]>>,
    value: PhantomData<fn() -> T>,
}

/// A value as compressed JSON, which only the packer that made it can read. Equal values have equal bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed(Box<[u8]>);

impl<T: Serialize + DeserializeOwned> Packer<T> {
    pub(crate) const fn new() -> Self {
        Self {
            dictionary: OnceLock::new(),
            value: PhantomData,
        }
    }

    pub(crate) fn pack(&self, value: &T) -> Packed {
        // Writing to memory cannot fail, and all keys of an object are strings.
        self.pack_json(&serde_json::to_vec(value).unwrap_or_default())
    }

    /// Packs a value that is JSON already.
    pub(crate) fn pack_json(&self, json: &[u8]) -> Packed {
        let first = || json[..json.len().min(MAX_DICTIONARY_BYTES)].into();
        let dictionary = self.dictionary.get_or_init(first);
        Packed(compress_prepend_size_with_dict(json, dictionary).into())
    }

    /// The packed value; `None` if another packer made it.
    pub(crate) fn unpack(&self, Packed(compressed): &Packed) -> Option<T> {
        let dictionary = self.dictionary.get()?;
        let json = decompress_size_prepended_with_dict(compressed, dictionary).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

impl Packed {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(number: usize) -> Value {
        let variables: Vec<_> = (0..40)
            .map(|index| json!({"name": format!("VARIABLE_{index}"), "value": "a".repeat(index)}))
            .collect();
        let containers =
            json!([{"name": "server", "image": "example.com/server:1", "env": variables}]);
        json!({"metadata": {"name": format!("server-{number}")}, "spec": {"containers": containers}})
    }

    #[test]
    fn values_are_the_same_after_unpacking() {
        let packer = Packer::new();
        for value in [deployment(1), deployment(2), json!({}), json!(null)] {
            let packed = packer.pack(&value);
            assert_eq!(packed, packer.pack(&value));
            assert_eq!(packer.unpack(&packed), Some(value));
        }
        assert_ne!(packer.pack(&deployment(1)), packer.pack(&deployment(2)));
    }

    #[test]
    fn a_value_that_resembles_the_first_one_takes_few_bytes() {
        let packer = Packer::new();
        packer.pack(&deployment(1));
        let (text, packed) = (deployment(2).to_string(), packer.pack(&deployment(2)));
        assert!(
            packed.len() * 10 < text.len(),
            "{} of {}",
            packed.len(),
            text.len()
        );
    }
}

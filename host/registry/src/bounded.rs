//! Deserializes lists and maps with a limit on their number of entries.
//!
//! A document is limited in bytes, but an entry of a few bytes can cost a hundred in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A list of at most `MAX` elements.
pub(crate) fn list<'de, const MAX: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for List<MAX, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} elements")
        }

        /// Tools write `null` for an empty list.
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = all.next_element()? {
                if list.len() == MAX {
                    return Err(A::Error::custom(format!(
                        "a list has more than {MAX} elements"
                    )));
                }
                list.push(element);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_any(List::<MAX, T>(PhantomData))
}

/// The entries of a map of strings whose keys `is_kept` selects, at most `MAX`.
pub(crate) fn map<'de, const MAX: usize, D>(
    deserializer: D,
    is_kept: fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Map<const MAX: usize>(fn(&str) -> bool);

    impl<'de, const MAX: usize> Visitor<'de> for Map<MAX> {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a map of strings")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(key) = all.next_key::<String>()? {
                if !(self.0)(&key) {
                    all.next_value::<IgnoredAny>()?;
                    continue;
                }
                if map.len() == MAX {
                    return Err(A::Error::custom(format!(
                        "a map has more than {MAX} entries"
                    )));
                }
                map.insert(key, all.next_value()?);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_any(Map::<MAX>(is_kept))
}

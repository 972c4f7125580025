//! An LRU cache of call results.
//!
//! A plugin is a pure function, so an entry stays valid forever: the key is the component and its
//! input, and there is no time to live. Faults are not cached, because this machine may have caused
//! them. The cache is bounded by entries and by the bytes that they hold in memory, keys included.

use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;

use crate::limits::Limits;
use crate::request::RawOutput;

/// A component with its limits, the function called, and its input. With other limits the same call may
/// fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) component: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) call: &'static str,
    pub(crate) shapes: String,
    pub(crate) input: String,
}

/// The output of a call and what the call used.
#[derive(Debug, Clone)]
pub(crate) struct CachedResult {
    pub(crate) output: Arc<RawOutput>,
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
}

/// The maximum size of the result cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultCacheCapacity {
    /// Maximum number of entries; 0 disables the cache.
    pub entries: usize,
    /// Maximum memory of all entries together, in bytes.
    pub bytes: usize,
}

impl Default for ResultCacheCapacity {
    /// 4,096 entries and 8 MiB, which is enough for some hundred resources.
    fn default() -> Self {
        Self {
            entries: 4_096,
            bytes: 8 << 20,
        }
    }
}

/// The results of all plugins of a host.
#[derive(Debug)]
pub(crate) struct ResultCache {
    capacity: ResultCacheCapacity,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    results: LruCache<Key, CachedResult>,
    bytes: usize,
}

impl ResultCache {
    pub(crate) fn new(capacity: ResultCacheCapacity) -> Self {
        Self {
            capacity,
            entries: Mutex::new(Entries {
                // `insert` enforces both bounds; the crate knows only a number of entries.
                results: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<CachedResult> {
        self.entries.lock().results.get(key).cloned()
    }

    /// Memory of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.lock().bytes
    }

    /// Adds a result, and evicts the least recently used ones beyond the capacity. An output larger
    /// than the whole cache is not added.
    pub(crate) fn insert(&self, key: Key, result: CachedResult) {
        let size = weight(&key, &result);
        if self.capacity.entries == 0 || size > self.capacity.bytes {
            return;
        }
        let mut entries = self.entries.lock();
        entries.bytes += size;
        if let Some((key, replaced)) = entries.results.push(key, result) {
            entries.bytes -= weight(&key, &replaced);
        }
        while entries.results.len() > self.capacity.entries || entries.bytes > self.capacity.bytes {
            let Some((key, evicted)) = entries.results.pop_lru() else {
                return;
            };
            entries.bytes -= weight(&key, &evicted);
        }
    }
}

/// Memory of one entry, in bytes. The component's name and its limits are shared.
fn weight(key: &Key, result: &CachedResult) -> usize {
    /// The entry in the list and in the index of the cache, and the counters of the `Arc`.
    const ENTRY_BYTES: usize = size_of::<Key>() + size_of::<CachedResult>() + 64;
    ENTRY_BYTES + key.shapes.len() + key.input.len() + result.output.held_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use llsd_adapter_sdk::exchange::Text;
    use llsd_adapter_sdk::{Detection, Diagnostic, Outcome};

    fn key(input: &str) -> Key {
        Key {
            component: "sha256:c".into(),
            limits: Arc::new(Limits::default()),
            call: "detect",
            shapes: String::new(),
            input: input.into(),
        }
    }

    fn result(schema: &str) -> CachedResult {
        CachedResult {
            output: Arc::new(RawOutput::Detection(Detection::One(schema.into()))),
            fuel: 1,
            memory_bytes: 0,
        }
    }

    fn cache(entries: usize, bytes: usize) -> ResultCache {
        ResultCache::new(ResultCacheCapacity { entries, bytes })
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_when_there_are_too_many() {
        let cache = cache(2, 10_000);
        for input in ["a", "b", "c"] {
            cache.insert(key(input), result(input));
        }
        assert!(cache.get(&key("a")).is_none());
        assert!(cache.get(&key("c")).is_some() && cache.get(&key("b")).is_some());
        cache.insert(key("d"), result("d"));
        assert!(cache.get(&key("c")).is_none());
        assert!(cache.get(&key("b")).is_some() && cache.get(&key("d")).is_some());
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_when_there_are_too_many_bytes() {
        let one = weight(&key("a"), &result("123456"));
        let cache = cache(100, one + one / 2);
        cache.insert(key("a"), result("123456"));
        cache.insert(key("b"), result("123456"));
        assert!(cache.get(&key("a")).is_none() && cache.get(&key("b")).is_some());
        cache.insert(key("c"), result(&"x".repeat(2 * one)));
        assert!(cache.get(&key("c")).is_none() && cache.get(&key("b")).is_some());
    }

    #[test]
    fn inserting_an_entry_again_does_not_count_its_bytes_twice() {
        let cache = cache(100, 10_000);
        for _ in 0..5 {
            cache.insert(key("a"), result("123456"));
        }
        let bytes = weight(&key("a"), &result("123456"));
        assert_eq!(cache.entries.lock().bytes, bytes);
    }

    /// Issue I, row 8: 4,096 such entries held 870 MB and weighed nothing.
    #[test]
    fn an_entry_weighs_its_empty_warnings() {
        let empty = Diagnostic::warning("", "", "", "");
        let outcome = Outcome {
            output: Text {
                shape: String::new(),
                json: "{}".to_owned(),
            },
            warnings: vec![empty; 2_048],
        };
        let result = CachedResult {
            output: Arc::new(RawOutput::Outcome(Ok(outcome))),
            fuel: 1,
            memory_bytes: 0,
        };
        assert!(weight(&key("a"), &result) >= 2_048 * size_of::<Diagnostic>());
        let cache = ResultCache::new(ResultCacheCapacity::default());
        for number in 0..4_096 {
            cache.insert(key(&number.to_string()), result.clone());
        }
        let entries = cache.entries.lock();
        assert!(entries.results.len() < 200, "{}", entries.results.len());
    }

    #[test]
    fn the_same_call_with_other_limits_is_another_entry() {
        let cache = cache(100, 10_000);
        cache.insert(key("a"), result("x"));
        let limits = Limits {
            fuel: 1,
            ..Limits::default()
        };
        let other = Key {
            limits: Arc::new(limits),
            ..key("a")
        };
        assert!(cache.get(&key("a")).is_some() && cache.get(&other).is_none());
    }
}

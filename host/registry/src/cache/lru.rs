//! A bounded map in memory that evicts the least recently used entry.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// A map with at most `capacity` entries.
pub(crate) struct LruCache<K, V> {
    entries: Mutex<Entries<K, V>>,
    capacity: usize,
}

struct Entries<K, V> {
    /// Values with the time of their last use.
    map: HashMap<K, (V, u64)>,
    /// Counts uses; larger is later.
    clock: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> LruCache<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: HashMap::new(),
                clock: 0,
            }),
            capacity,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let now = entries.clock;
        let (value, used) = entries.map.get_mut(key)?;
        *used = now;
        Some(value.clone())
    }

    /// Inserts an entry. Eviction searches the whole map, which is small.
    pub(crate) fn insert(&self, key: K, value: V) {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let now = entries.clock;
        entries.map.insert(key, (value, now));
        if entries.map.len() > self.capacity {
            let oldest = entries.map.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                entries.map.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let cache = LruCache::new(2);
        cache.insert("a", 1);
        cache.insert("b", 2);
        assert_eq!(cache.get(&"a"), Some(1));
        cache.insert("c", 3);
        assert_eq!(
            (cache.get(&"a"), cache.get(&"b"), cache.get(&"c")),
            (Some(1), None, Some(3))
        );
    }
}

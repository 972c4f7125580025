//! A bounded map in memory that evicts the least recently used entry.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// A map that evicts the least recently used entries when it exceeds its capacity.
pub(crate) struct LruCache<K, V> {
    entries: Mutex<Entries<K, V>>,
    /// The largest total weight.
    capacity: usize,
    weight_of: fn(&K, &V) -> usize,
}

struct Entries<K, V> {
    map: HashMap<K, Entry<V>>,
    /// The total weight of the entries.
    weight: usize,
    /// Counts uses; larger is later.
    clock: u64,
}

struct Entry<V> {
    value: V,
    weight: usize,
    /// The time of the last use.
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> LruCache<K, V> {
    /// A map with at most `capacity` entries, for entries of about the same size.
    pub(crate) fn new(capacity: usize) -> Self {
        Self::weighing(capacity, |_, _| 1)
    }

    /// A map whose entries weigh at most `capacity` together.
    pub(crate) fn weighing(capacity: usize, weight_of: fn(&K, &V) -> usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: HashMap::new(),
                weight: 0,
                clock: 0,
            }),
            capacity,
            weight_of,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let now = entries.clock;
        let entry = entries.map.get_mut(key)?;
        entry.used = now;
        Some(entry.value.clone())
    }

    /// The total weight of the entries.
    pub(crate) fn weight(&self) -> usize {
        self.entries.lock().weight
    }

    /// Inserts an entry. Eviction searches the whole map, which is small. An entry that is heavier than
    /// the capacity is not kept.
    pub(crate) fn insert(&self, key: K, value: V) {
        let weight = (self.weight_of)(&key, &value);
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let used = entries.clock;
        let entry = Entry {
            value,
            weight,
            used,
        };
        entries.weight += weight;
        if let Some(replaced) = entries.map.insert(key, entry) {
            entries.weight -= replaced.weight;
        }
        while entries.weight > self.capacity && entries.evict_oldest() {}
    }
}

impl<K: Eq + Hash + Clone, V> Entries<K, V> {
    /// Returns false if there is none.
    fn evict_oldest(&mut self) -> bool {
        let oldest = self.map.iter().min_by_key(|(_, entry)| entry.used);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return false;
        };
        if let Some(evicted) = self.map.remove(&key) {
            self.weight -= evicted.weight;
        }
        true
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

    #[test]
    fn heavy_entries_evict_several_light_ones_and_too_heavy_ones_are_not_kept() {
        let cache = LruCache::weighing(10, |_, value: &String| value.len());
        for key in ["a", "b", "c"] {
            cache.insert(key, "xxx".to_owned());
        }
        cache.insert("d", "x".repeat(6));
        assert_eq!(cache.get(&"a"), None);
        assert_eq!(cache.get(&"b"), None);
        assert!(cache.get(&"c").is_some() && cache.get(&"d").is_some());
        cache.insert("c", "x".to_owned());
        cache.insert("e", "x".repeat(11));
        assert_eq!(cache.get(&"e"), None);
        cache.insert("f", "x".repeat(10));
        assert_eq!(cache.entries.lock().weight, 10);
    }
}

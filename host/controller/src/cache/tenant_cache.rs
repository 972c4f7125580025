//! A cache with a limit for each namespace, so that no tenant displaces what another tenant uses.
//!
//! Every content has a weight in bytes. If a namespace exceeds its limit, its content that was not
//! used for the longest time is dropped. If all namespaces together exceed theirs, the namespace with
//! the most bytes loses content first. Equal contents of several namespaces are in memory once, and count
//! once for all of them together: the CA bundle of a platform is in every namespace.

use std::collections::HashMap;

/// The most bytes of one namespace.
const NAMESPACE_BYTES: usize = 8 << 20;
/// The most bytes of all namespaces.
const TOTAL_BYTES: usize = 48 << 20;

/// What equal contents have in common, such as a digest.
pub(super) type Identity = [u8; 32];

/// Contents by namespace and name.
pub(super) struct TenantCache<T> {
    namespaces: HashMap<String, Tenant>,
    contents: HashMap<Identity, Content<T>>,
    /// The bytes of all contents.
    bytes: usize,
    /// Counts the uses, to find what was not used for the longest time.
    uses: u64,
}

#[derive(Default)]
struct Tenant {
    objects: HashMap<String, Stored>,
    bytes: usize,
}

/// An object with a content.
struct Stored {
    version: String,
    content: Identity,
    bytes: usize,
    last_used: u64,
}

struct Content<T> {
    content: T,
    bytes: usize,
    /// The number of objects that have it.
    objects: usize,
}

impl<T> Default for TenantCache<T> {
    fn default() -> Self {
        Self {
            namespaces: HashMap::new(),
            contents: HashMap::new(),
            bytes: 0,
            uses: 0,
        }
    }
}

impl<T: Clone> TenantCache<T> {
    /// The content of an object, if it was stored for this version.
    pub(super) fn get(&mut self, namespace: &str, name: &str, version: &str) -> Option<T> {
        self.uses += 1;
        let stored = self.namespaces.get_mut(namespace)?.objects.get_mut(name)?;
        stored.last_used = self.uses;
        let content = self.contents.get(&stored.content)?;
        (stored.version == version).then(|| content.content.clone())
    }

    /// Stores the content of an object, and returns the one in memory. A content that is larger than the limit
    /// is not stored.
    pub(super) fn insert(
        &mut self,
        (namespace, name): (&str, &str),
        version: String,
        identity: Identity,
        content: T,
        bytes: usize,
    ) -> T {
        self.remove(namespace, name);
        if bytes > NAMESPACE_BYTES {
            return content;
        }
        self.uses += 1;
        let tenant = self.namespaces.entry(namespace.to_owned()).or_default();
        let stored = Stored {
            version,
            content: identity,
            bytes,
            last_used: self.uses,
        };
        tenant.objects.insert(name.to_owned(), stored);
        tenant.bytes += bytes;
        let shared = self.contents.entry(identity).or_insert_with(|| {
            self.bytes += bytes;
            Content {
                content,
                bytes,
                objects: 0,
            }
        });
        shared.objects += 1;
        let content = shared.content.clone();
        while let Some(heaviest) = self.over_limit() {
            self.drop_oldest(&heaviest);
        }
        content
    }

    /// Drops every content that `keep` does not accept.
    pub(super) fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        let objects = self.namespaces.iter().flat_map(|(namespace, tenant)| {
            let names = tenant.objects.keys();
            names.map(move |name| (namespace.clone(), name.clone()))
        });
        let dropped = objects.filter(|(namespace, name)| !keep(namespace, name));
        for (namespace, name) in dropped.collect::<Vec<_>>() {
            self.remove(&namespace, &name);
        }
    }

    /// The bytes of all contents.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The namespace that must lose content.
    fn over_limit(&self) -> Option<String> {
        let (name, heaviest) = self
            .namespaces
            .iter()
            .max_by_key(|(_, tenant)| tenant.bytes)?;
        let is_over = heaviest.bytes > NAMESPACE_BYTES || self.bytes > TOTAL_BYTES;
        is_over.then(|| name.clone())
    }

    fn drop_oldest(&mut self, namespace: &str) {
        let oldest = self.namespaces.get(namespace).and_then(|tenant| {
            let oldest = tenant.objects.iter().min_by_key(|(_, one)| one.last_used);
            oldest.map(|(name, _)| name.clone())
        });
        match oldest {
            Some(name) => self.remove(namespace, &name),
            None => drop(self.namespaces.remove(namespace)),
        }
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(tenant) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let removed = tenant.objects.remove(name);
        if let Some(stored) = &removed {
            tenant.bytes = tenant.bytes.saturating_sub(stored.bytes);
        }
        if tenant.objects.is_empty() {
            self.namespaces.remove(namespace);
        }
        if let Some(stored) = removed {
            self.release(&stored.content);
        }
    }

    /// Drops a content that no object has any more.
    fn release(&mut self, identity: &Identity) {
        let Some(content) = self.contents.get_mut(identity) else {
            return;
        };
        content.objects -= 1;
        if content.objects == 0 {
            self.bytes -= content.bytes;
            self.contents.remove(identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Inserts a content that no other object has.
    fn insert(cache: &mut TenantCache<u8>, namespace: &str, name: &str, bytes: usize) {
        let mut identity = [0; 32];
        for (at, byte) in namespace.bytes().chain(name.bytes()).enumerate() {
            identity[at] = byte;
        }
        cache.insert((namespace, name), "1".to_owned(), identity, 7, bytes);
    }

    #[test]
    fn one_namespace_loses_its_own_oldest_content() {
        let mut cache = TenantCache::default();
        insert(&mut cache, "fair", "small", 100);
        insert(&mut cache, "hostile", "a", 5 << 20);
        insert(&mut cache, "hostile", "b", 1 << 20);
        assert!(cache.get("hostile", "a", "1").is_some());
        insert(&mut cache, "hostile", "c", 3 << 20);
        assert_eq!(cache.get("hostile", "b", "1"), None);
        assert!(cache.get("hostile", "a", "1").is_some());
        assert!(cache.get("hostile", "c", "1").is_some());
        assert!(cache.get("fair", "small", "1").is_some());
        insert(&mut cache, "hostile", "huge", NAMESPACE_BYTES + 1);
        assert_eq!(cache.get("hostile", "huge", "1"), None);
    }

    #[test]
    fn many_namespaces_together_do_not_displace_one_that_uses_little() {
        let mut cache = TenantCache::default();
        insert(&mut cache, "fair", "small", 100);
        for number in 0..20 {
            insert(&mut cache, &format!("hostile-{number}"), "a", 7 << 20);
        }
        assert!(cache.bytes() <= TOTAL_BYTES, "{}", cache.bytes());
        assert!(cache.get("fair", "small", "1").is_some());
    }

    #[test]
    fn a_content_counts_only_for_its_version_and_while_its_object_exists() {
        let mut cache = TenantCache::default();
        insert(&mut cache, "ns", "a", 1);
        assert_eq!(cache.get("ns", "a", "2"), None);
        assert_eq!(cache.get("ns", "a", "1"), Some(7));
        cache.retain(|_, _| false);
        assert_eq!(cache.get("ns", "a", "1"), None);
    }

    #[test]
    fn a_content_that_all_namespaces_have_is_in_memory_once() {
        let (mut cache, mut first) = (TenantCache::default(), None);
        for number in 0..100 {
            let namespace = format!("ns-{number}");
            let object = (namespace.as_str(), "ca");
            let stored = cache.insert(object, "1".to_owned(), [1; 32], Arc::new(7), 1 << 20);
            let first = first.get_or_insert_with(|| stored.clone());
            assert!(Arc::ptr_eq(first, &stored));
        }
        assert_eq!(cache.bytes(), 1 << 20);
        cache.retain(|namespace, _| namespace == "ns-7");
        assert_eq!(cache.bytes(), 1 << 20);
        assert!(cache.get("ns-7", "ca", "1").is_some());
        cache.retain(|_, _| false);
        assert_eq!(cache.bytes(), 0);
    }
}

//! A cache with a limit for each namespace, so that no tenant displaces what another tenant uses.
//!
//! Every content has a weight in bytes. If a namespace exceeds its limit, its content that was not
//! used for the longest time is dropped. If all namespaces together exceed theirs, the namespace with
//! the most bytes loses content first.

use std::collections::HashMap;

/// The most bytes of one namespace.
const NAMESPACE_BYTES: usize = 8 << 20;
/// The most bytes of all namespaces.
const TOTAL_BYTES: usize = 48 << 20;

/// Contents by namespace and name.
pub(super) struct TenantCache<T> {
    namespaces: HashMap<String, Tenant<T>>,
    /// Counts the uses, to find what was not used for the longest time.
    uses: u64,
}

struct Tenant<T> {
    contents: HashMap<String, Stored<T>>,
    bytes: usize,
}

struct Stored<T> {
    version: String,
    content: T,
    bytes: usize,
    last_used: u64,
}

impl<T> Default for TenantCache<T> {
    fn default() -> Self {
        Self {
            namespaces: HashMap::new(),
            uses: 0,
        }
    }
}

impl<T: Clone> TenantCache<T> {
    /// The content of an object, if it was stored for this version.
    pub(super) fn get(&mut self, namespace: &str, name: &str, version: &str) -> Option<T> {
        self.uses += 1;
        let stored = self.namespaces.get_mut(namespace)?.contents.get_mut(name)?;
        stored.last_used = self.uses;
        (stored.version == version).then(|| stored.content.clone())
    }

    /// Stores the content of an object. A content that is larger than the limit is not stored.
    pub(super) fn insert(
        &mut self,
        namespace: &str,
        name: &str,
        version: String,
        content: T,
        bytes: usize,
    ) {
        self.remove(namespace, name);
        if bytes > NAMESPACE_BYTES {
            return;
        }
        self.uses += 1;
        let tenant = self.namespaces.entry(namespace.to_owned());
        let tenant = tenant.or_insert_with(|| Tenant {
            contents: HashMap::new(),
            bytes: 0,
        });
        let stored = Stored {
            version,
            content,
            bytes,
            last_used: self.uses,
        };
        tenant.contents.insert(name.to_owned(), stored);
        tenant.bytes += bytes;
        while let Some(heaviest) = self.over_limit() {
            self.drop_oldest(&heaviest);
        }
    }

    /// Drops every content that `keep` does not accept.
    pub(super) fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        self.namespaces.retain(|namespace, tenant| {
            tenant.contents.retain(|name, _| keep(namespace, name));
            tenant.bytes = tenant.contents.values().map(|stored| stored.bytes).sum();
            !tenant.contents.is_empty()
        });
    }

    /// The namespace that must lose content.
    fn over_limit(&self) -> Option<String> {
        let total: usize = self.namespaces.values().map(|tenant| tenant.bytes).sum();
        let (name, heaviest) = self
            .namespaces
            .iter()
            .max_by_key(|(_, tenant)| tenant.bytes)?;
        let is_over = heaviest.bytes > NAMESPACE_BYTES || total > TOTAL_BYTES;
        is_over.then(|| name.clone())
    }

    fn drop_oldest(&mut self, namespace: &str) {
        let oldest = self.namespaces.get(namespace).and_then(|tenant| {
            let oldest = tenant.contents.iter().min_by_key(|(_, one)| one.last_used);
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
        if let Some(stored) = tenant.contents.remove(name) {
            tenant.bytes = tenant.bytes.saturating_sub(stored.bytes);
        }
        if tenant.contents.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(cache: &mut TenantCache<u8>, namespace: &str, name: &str, bytes: usize) {
        cache.insert(namespace, name, "1".to_owned(), 7, bytes);
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
        let total: usize = cache.namespaces.values().map(|tenant| tenant.bytes).sum();
        assert!(total <= TOTAL_BYTES, "{total}");
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
}

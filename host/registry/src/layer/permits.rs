//! Limits how many layers are searched at the same time, in total and for each registry.
//!
//! A search holds a decompression window and a few small files. The share of each registry keeps a slow
//! one from blocking the others.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Searches at the same time. Each may hold about 16 MiB.
const MAX_SCANS: usize = 6;
/// Searches at the same time in layers of one registry.
const MAX_SCANS_PER_REGISTRY: usize = 2;

/// The semaphores.
pub(crate) struct ScanPermits {
    all: Arc<Semaphore>,
    by_registry: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The permission to search one layer, released on drop.
pub(crate) struct ScanPermit {
    _of_registry: (OwnedSemaphorePermit, Arc<Semaphore>),
    _of_all: OwnedSemaphorePermit,
}

impl Default for ScanPermits {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_SCANS)),
            by_registry: Mutex::default(),
        }
    }
}

impl ScanPermits {
    /// Waits until a layer of this registry may be searched. `None` never happens: the semaphores are not
    /// closed.
    pub(crate) async fn acquire(&self, registry: &str) -> Option<ScanPermit> {
        let share = self.share_of(registry);
        let of_registry = Arc::clone(&share).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(ScanPermit {
            _of_registry: (of_registry, share),
            _of_all: of_all,
        })
    }

    /// The semaphore of a registry, which exists while someone uses it.
    fn share_of(&self, registry: &str) -> Arc<Semaphore> {
        let mut all = self.by_registry.lock();
        all.retain(|_, share| share.strong_count() > 0);
        if let Some(share) = all.get(registry).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Semaphore::new(MAX_SCANS_PER_REGISTRY));
        all.insert(registry.to_owned(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_registry_gets_its_share_and_all_registries_together_the_total() {
        let permits = ScanPermits::default();
        let now = |registry: &str| permits.acquire(registry).now_or_never().flatten();
        let mut held = Vec::new();
        for registry in ["a", "b", "c"] {
            for _ in 0..MAX_SCANS_PER_REGISTRY {
                held.push(now(registry).unwrap());
            }
            assert!(now(registry).is_none());
        }
        assert_eq!(held.len(), MAX_SCANS);
        assert!(now("d").is_none());
        held.clear();
        assert!(now("d").is_some());
        assert!(now("a").is_some());
        assert!(permits.by_registry.lock().len() <= 1);
    }
}

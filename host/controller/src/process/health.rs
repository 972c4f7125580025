//! Liveness and readiness of the operator, for the probes of its pod.
//!
//! Alive: no reconciliation has been running for too long. Ready: every watch has delivered its first
//! list and the operator is not stopping. A replica that waits for leadership can be both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::ClusterCache;

/// Longer than the deadline of a reconciliation, so that only a bug can exceed it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The running reconciliations, and the cache.
pub(crate) struct Health {
    cache: Arc<ClusterCache>,
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Instant>>,
    is_draining: AtomicBool,
}

/// A running reconciliation. It ends when the guard is dropped, also by a panic.
pub(crate) struct ReconcileGuard<'a> {
    health: &'a Health,
    number: u64,
}

impl Health {
    pub(crate) fn new(cache: Arc<ClusterCache>) -> Self {
        Self {
            cache,
            next: AtomicU64::default(),
            running: Mutex::default(),
            is_draining: AtomicBool::default(),
        }
    }

    /// Registers a reconciliation.
    pub(crate) fn start(&self, now: Instant) -> ReconcileGuard<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.running.lock().insert(number, now);
        ReconcileGuard {
            health: self,
            number,
        }
    }

    /// Whether no reconciliation is stuck.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        let running = self.running.lock();
        running
            .values()
            .all(|begun| now.duration_since(*begun) < STUCK_AFTER)
    }

    /// Whether the caches are complete and the operator is not stopping.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining.load(Ordering::Relaxed) && self.cache.is_complete()
    }

    /// Ends the readiness, so that the Service sends no new requests to this replica.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }
}

impl Drop for ReconcileGuard<'_> {
    fn drop(&mut self) {
        self.health.running.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_reconciliation_fails_liveness_until_it_ends() {
        let health = Health::new(Arc::new(ClusterCache::new([])));
        let start = Instant::now();
        let later = start + STUCK_AFTER;
        let guard = health.start(start);
        assert!(health.is_alive(start) && !health.is_alive(later));
        drop(guard);
        assert!(health.is_alive(later));
        assert!(!health.is_ready());
    }

    #[test]
    fn a_replica_that_stops_is_alive_and_not_ready() {
        let health = Health::new(Arc::new(ClusterCache::completed()));
        assert!(health.is_ready());
        health.drain();
        assert!(!health.is_ready() && health.is_alive(Instant::now()));
    }
}

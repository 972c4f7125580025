//! Whether the operator works: for the probes of its pod.
//!
//! Alive means that no pass has been stuck for long; ready means that every watch has told what there
//! is. A replica that waits for the lead is both.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::view::View;

/// A pass makes a handful of requests and calls plugins that are cut off after seconds.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The passes under way, and the view.
pub(crate) struct Health {
    view: Arc<View>,
    next: AtomicU64,
    passes: Mutex<BTreeMap<u64, Instant>>,
}

/// A pass under way. It ends when this is dropped, also by a panic.
pub(crate) struct Pass<'a> {
    health: &'a Health,
    number: u64,
}

impl Health {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self {
            view,
            next: AtomicU64::default(),
            passes: Mutex::default(),
        }
    }

    /// A pass begins.
    pub(crate) fn begin(&self, now: Instant) -> Pass<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.insert(number, now);
        Pass {
            health: self,
            number,
        }
    }

    /// Whether the process does its work.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes
            .values()
            .all(|begun| now.duration_since(*begun) < STUCK_AFTER)
    }

    /// Whether the cluster is known.
    pub(crate) fn is_ready(&self) -> bool {
        self.view.is_complete()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let passes = &self.health.passes;
        passes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_never_ends_is_noticed_and_one_that_ended_is_forgotten() {
        let health = Health::new(Arc::new(View::new([])));
        let start = Instant::now();
        let later = start + STUCK_AFTER;
        let pass = health.begin(start);
        assert!(health.is_alive(start) && !health.is_alive(later));
        drop(pass);
        assert!(health.is_alive(later));
        assert!(!health.is_ready());
    }
}

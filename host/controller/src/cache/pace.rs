//! Limits how often one resource is reconciled, with a token bucket for each resource.
//!
//! Updates of a resource that arrive faster are reconciled together. So a resource that someone
//! changes all the time uses a small part of the operator, and is still reconciled every second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Reconciliations in a row without a delay. A rollout causes one for each change of a pod.
const BURST: u32 = 20;
/// Time in which a resource earns one more reconciliation.
const INTERVAL: Duration = Duration::from_secs(1);

/// The earned reconciliations, by namespace and name of the resource.
#[derive(Default)]
pub(crate) struct Pace(Mutex<HashMap<(String, String), Bucket>>);

struct Bucket {
    tokens: u32,
    /// Until when tokens were added.
    at: Instant,
}

impl Pace {
    /// Takes one reconciliation. `Err`: how long to wait for the next one.
    pub(crate) fn take(&self, namespace: &str, name: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock();
        let bucket = buckets.entry((namespace.to_owned(), name.to_owned()));
        let bucket = bucket.or_insert(Bucket {
            tokens: BURST,
            at: now,
        });
        let age = now.saturating_duration_since(bucket.at);
        let earned = u32::try_from(age.as_millis() / INTERVAL.as_millis()).unwrap_or(u32::MAX);
        bucket.tokens = bucket.tokens.saturating_add(earned).min(BURST);
        if bucket.tokens == BURST {
            bucket.at = now;
        } else {
            bucket.at += INTERVAL.saturating_mul(earned);
        }
        match bucket.tokens.checked_sub(1) {
            Some(left) => {
                bucket.tokens = left;
                Ok(())
            }
            None => Err(INTERVAL.saturating_sub(now.saturating_duration_since(bucket.at))),
        }
    }

    /// Drops what is stored for a deleted resource.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.0
            .lock()
            .remove(&(namespace.to_owned(), name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_changes_all_the_time_is_reconciled_once_a_second() {
        let (pace, start) = (Pace::default(), Instant::now());
        let taken = |name: &str, until: u64| {
            let times = (0..until).map(|millis| start + Duration::from_millis(millis));
            times
                .filter(|at| pace.take("ns", name, *at).is_ok())
                .count()
        };
        assert_eq!(taken("busy", 10_000), 29);
        assert_eq!(pace.take("ns", "calm", start), Ok(()));
    }

    #[test]
    fn the_wait_ends_when_the_next_reconciliation_is_earned() {
        let (pace, start) = (Pace::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(pace.take("ns", "busy", start), Ok(()));
        }
        let wait = pace.take("ns", "busy", start).unwrap_err();
        assert_eq!(pace.take("ns", "busy", start + wait), Ok(()));
        assert!(pace.take("ns", "busy", start + wait).is_err());
        pace.forget("ns", "busy");
        assert_eq!(pace.take("ns", "busy", start), Ok(()));
    }
}

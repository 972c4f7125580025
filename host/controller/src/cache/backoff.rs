//! Exponential backoff with jitter, per resource.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);
/// The largest share of a delay that jitter takes off.
const JITTER: f64 = 0.2;

/// Consecutive failures, by namespace and name of the resource.
#[derive(Default)]
pub(crate) struct Backoff(Mutex<HashMap<(String, String), u32>>);

impl Backoff {
    /// Counts a failure and returns how long to wait before the next attempt.
    pub(crate) fn next_delay(&self, namespace: &str, name: &str) -> Duration {
        let mut all = self.0.lock();
        let failures = all
            .entry((namespace.to_owned(), name.to_owned()))
            .or_default();
        let delay = delay(*failures, fastrand::f64());
        *failures = failures.saturating_add(1);
        delay
    }

    /// Resets the count, after a success or when the resource was deleted.
    pub(crate) fn reset(&self, namespace: &str, name: &str) {
        self.0
            .lock()
            .remove(&(namespace.to_owned(), name.to_owned()));
    }
}

/// `random` is between 0 and 1.
fn delay(failures: u32, random: f64) -> Duration {
    let doubled = INITIAL_DELAY.saturating_mul(2_u32.saturating_pow(failures));
    doubled.min(MAX_DELAY).mul_f64(1.0 - JITTER * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_five_minutes_and_jitter_shortens_it() {
        assert_eq!(delay(0, 0.0), Duration::from_secs(1));
        assert_eq!(delay(3, 0.0), Duration::from_secs(8));
        assert_eq!(delay(40, 0.0), MAX_DELAY);
        assert_eq!(delay(0, 1.0), Duration::from_millis(800));
    }

    #[test]
    fn a_success_resets_the_delay() {
        let backoff = Backoff::default();
        backoff.next_delay("ns", "a");
        assert!(backoff.next_delay("ns", "a") > INITIAL_DELAY);
        backoff.reset("ns", "a");
        assert!(backoff.next_delay("ns", "a") <= INITIAL_DELAY);
    }
}

//! How long to wait before a resource is tried again: longer each time, and never all at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// Part of the time that chance decides.
const JITTER: f64 = 0.2;

/// Failures in a row, by namespace and name.
#[derive(Default)]
pub(crate) struct Patience(Mutex<HashMap<(String, String), u32>>);

impl Patience {
    /// One more failure: how long to wait.
    pub(crate) fn lose(&self, namespace: &str, name: &str) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = all
            .entry((namespace.to_owned(), name.to_owned()))
            .or_default();
        let delay = delay(*failures, fastrand::f64());
        *failures = failures.saturating_add(1);
        delay
    }

    /// It went well, or it is gone.
    pub(crate) fn regain(&self, namespace: &str, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&(namespace.to_owned(), name.to_owned()));
    }
}

/// `chance` lies between 0 and 1.
fn delay(failures: u32, chance: f64) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures));
    doubled.min(LONGEST).mul_f64(1.0 - JITTER * chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_five_minutes_and_chance_shortens_it() {
        assert_eq!(delay(0, 0.0), Duration::from_secs(1));
        assert_eq!(delay(3, 0.0), Duration::from_secs(8));
        assert_eq!(delay(40, 0.0), LONGEST);
        assert_eq!(delay(0, 1.0), Duration::from_millis(800));
    }

    #[test]
    fn a_success_starts_again() {
        let patience = Patience::default();
        patience.lose("ns", "a");
        assert!(patience.lose("ns", "a") > FIRST);
        patience.regain("ns", "a");
        assert!(patience.lose("ns", "a") <= FIRST);
    }
}

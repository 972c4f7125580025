//! When a failed read is repeated: growing delays for each image, and for each registry that does not
//! answer, separately for each namespace.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Error;
use super::fetched::Key;

/// Delay before the first repetition of a read that failed for a transient reason.
const TRANSIENT: Duration = Duration::from_secs(10);
/// Delay before the first repetition of any other read. A registry does not notify about a push.
const OTHER: Duration = Duration::from_secs(60);
/// The longest delay.
const MAX: Duration = Duration::from_secs(300);
/// Delay for a registry that did not answer one read.
const HOST: Duration = Duration::from_secs(5);
/// The most registries whose failures are recorded. Beyond it, all records are dropped.
const MAX_HOSTS: usize = 4096;

/// Delay after a number of failures in a row.
pub(super) fn delay(error: &Error, failures: u32) -> Duration {
    match error.needs_user_action() {
        true => grown(OTHER, failures),
        false => grown(TRANSIENT, failures),
    }
}

fn grown(first: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(MAX)
}

/// The registries that did not answer, by namespace and host.
#[derive(Debug, Default)]
pub(super) struct SilentHosts(HashMap<(String, String), Silence>);

#[derive(Debug)]
struct Silence {
    failures: u32,
    until: Instant,
}

impl SilentHosts {
    /// Records the end of a read.
    pub(super) fn record(&mut self, key: &Key, is_silent: bool, now: Instant) {
        let Some(host) = host(&key.image) else {
            return;
        };
        let host = (key.puller.namespace().to_owned(), host);
        if !is_silent {
            self.0.remove(&host);
            return;
        }
        if self.0.len() >= MAX_HOSTS {
            self.0.clear();
        }
        let silence = self.0.entry(host).or_insert(Silence {
            failures: 0,
            until: now,
        });
        silence.failures = silence.failures.saturating_add(1);
        silence.until = now + grown(HOST, silence.failures);
    }

    /// Fails while the registry of an image must not be asked.
    pub(super) fn check(&self, key: &Key, now: Instant) -> Result<(), Error> {
        let namespace = key.puller.namespace().to_owned();
        let Some(host) = host(&key.image) else {
            return Ok(());
        };
        match self.0.get(&(namespace.clone(), host.clone())) {
            Some(silence) if now < silence.until => Err(Error::HostBackoff {
                image: key.image.clone(),
                host,
                namespace,
                failures: silence.failures,
                until: silence.until,
            }),
            _ => Ok(()),
        }
    }
}

/// The registry that an image names. A mirror is not resolved: it stands for the same registry.
fn host(image: &str) -> Option<String> {
    let reference: llsd_registry::Reference = image.parse().ok()?;
    Some(reference.registry().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_five_minutes() {
        assert_eq!(grown(TRANSIENT, 1), Duration::from_secs(10));
        assert_eq!(grown(TRANSIENT, 3), Duration::from_secs(40));
        assert_eq!(grown(OTHER, 40), MAX);
    }

    #[test]
    fn a_registry_that_does_not_answer_is_asked_less_often_and_only_by_its_namespace() {
        let key = |namespace: &str, image: &str| Key::base(image, &namespace.into());
        let now = Instant::now();
        let mut hosts = SilentHosts::default();
        hosts.record(&key("a", "black.hole/one:1"), true, now);
        let other_image = key("a", "black.hole/two:1");
        let error = hosts.check(&other_image, now).unwrap_err().to_string();
        assert!(error.contains("black.hole"), "{error}");
        assert!(hosts.check(&other_image, now + HOST).is_ok());
        assert!(hosts.check(&key("a", "other.host/one:1"), now).is_ok());
        assert!(hosts.check(&key("b", "black.hole/one:1"), now).is_ok());

        hosts.record(&other_image, true, now);
        assert!(hosts.check(&other_image, now + HOST).is_err());
        hosts.record(&other_image, false, now);
        assert!(hosts.check(&other_image, now).is_ok());
    }
}

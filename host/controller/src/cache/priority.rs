//! Limits concurrent reconciliations, and lets resources without a Deployment go first.
//!
//! When many resources are created at once, the pods of the first ones cause a stream of status
//! updates. Without priorities those updates would delay the start of the last resources.

use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// A semaphore with two priorities.
pub(crate) struct PrioritySemaphore {
    permits: Semaphore,
    /// How many high-priority callers wait for a permit.
    high_waiting: watch::Sender<usize>,
}

impl PrioritySemaphore {
    /// Creates a semaphore with this number of permits.
    pub(crate) fn new(permits: u16) -> Self {
        Self {
            permits: Semaphore::new(permits.into()),
            high_waiting: watch::Sender::new(0),
        }
    }

    /// Waits for a permit with high priority. Dropping the permit releases it.
    pub(crate) async fn acquire_high(&self) -> Option<SemaphorePermit<'_>> {
        let _waiting = HighWaiter::new(&self.high_waiting);
        self.permits.acquire().await.ok()
    }

    /// Waits for a permit until no high-priority caller waits for one.
    pub(crate) async fn acquire_normal(&self) -> Option<SemaphorePermit<'_>> {
        let mut high_waiting = self.high_waiting.subscribe();
        loop {
            // The sender lives as long as `self`, so that waiting cannot fail.
            let _ = high_waiting.wait_for(|waiting| *waiting == 0).await;
            let permit = self.permits.acquire().await.ok();
            if !self.has_high_waiters() {
                return permit;
            }
        }
    }

    /// Whether a high-priority caller waits for a permit.
    pub(crate) fn has_high_waiters(&self) -> bool {
        *self.high_waiting.borrow() > 0
    }
}

/// Counts one high-priority caller as waiting until it is dropped.
struct HighWaiter<'a>(&'a watch::Sender<usize>);

impl<'a> HighWaiter<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for HighWaiter<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_high_priority_caller_overtakes_waiting_callers() {
        let semaphore = PrioritySemaphore::new(1);
        let first = semaphore.acquire_normal().await;
        let mut normal = pin!(semaphore.acquire_normal());
        assert!(normal.as_mut().now_or_never().is_none());
        let mut high = pin!(semaphore.acquire_high());
        assert!(high.as_mut().now_or_never().is_none());
        drop(first);
        // The first waiting caller receives the permit and releases it at once.
        assert!(normal.as_mut().now_or_never().is_none());
        let second = high.as_mut().now_or_never();
        assert!(second.is_some());
        drop(second);
        assert!(normal.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_cancelled_high_priority_caller_does_not_block_others() {
        let semaphore = PrioritySemaphore::new(1);
        let permit = semaphore.acquire_high().await;
        assert!(semaphore.acquire_high().now_or_never().is_none());
        drop(permit);
        assert!(semaphore.acquire_normal().now_or_never().is_some());
    }
}

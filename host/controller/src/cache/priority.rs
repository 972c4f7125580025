//! Whose turn it is: to get a resource running comes before everything else.
//!
//! When many resources arrive at once, the control plane is busy with the pods of the first of them,
//! and what there is to say about those would keep the last ones waiting.

use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Places for work, and who waits for one.
pub(crate) struct Turns {
    places: Semaphore,
    urgent: watch::Sender<usize>,
}

impl Turns {
    /// So much at the same time.
    pub(crate) fn new(places: u16) -> Self {
        Self {
            places: Semaphore::new(places.into()),
            urgent: watch::Sender::new(0),
        }
    }

    /// Waits for a place ahead of all that is not urgent. The place is free again when the answer is
    /// dropped.
    pub(crate) async fn urgent(&self) -> Option<SemaphorePermit<'_>> {
        let _waiting = Waiting::new(&self.urgent);
        self.places.acquire().await.ok()
    }

    /// Whether something urgent waits.
    pub(crate) fn is_anything_urgent(&self) -> bool {
        *self.urgent.borrow() > 0
    }

    /// Waits for a place until nothing urgent waits.
    pub(crate) async fn ordinary(&self) -> Option<SemaphorePermit<'_>> {
        let mut urgent = self.urgent.subscribe();
        loop {
            // Their sender lives as long as this, so that waiting cannot fail.
            let _ = urgent.wait_for(|waiting| *waiting == 0).await;
            let place = self.places.acquire().await.ok();
            if !self.is_anything_urgent() {
                return place;
            }
        }
    }
}

/// Something urgent that waits, until this is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(urgent: &'a watch::Sender<usize>) -> Self {
        urgent.send_modify(|waiting| *waiting += 1);
        Self(urgent)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_is_urgent_overtakes_whoever_waits() {
        let turns = Turns::new(1);
        let first = turns.ordinary().await;
        let mut ordinary = pin!(turns.ordinary());
        assert!(ordinary.as_mut().now_or_never().is_none());
        let mut urgent = pin!(turns.urgent());
        assert!(urgent.as_mut().now_or_never().is_none());
        drop(first);
        // The place goes to who asked first, who gives it away.
        assert!(ordinary.as_mut().now_or_never().is_none());
        let second = urgent.as_mut().now_or_never();
        assert!(second.is_some());
        drop(second);
        assert!(ordinary.now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_was_urgent_and_gave_up_is_not_waited_for() {
        let turns = Turns::new(1);
        let place = turns.urgent().await;
        assert!(turns.urgent().now_or_never().is_none());
        drop(place);
        assert!(turns.ordinary().now_or_never().is_some());
    }
}

//! Limits concurrent reconciliations: fairly between namespaces, and new resources first within one.
//!
//! When many resources are created at once, the pods of the first ones cause a stream of status
//! updates. Without priorities those updates would delay the start of the last resources. Priorities
//! count within a namespace only, and a part of the permits is never given to a single namespace, so
//! that a namespace with many resources delays only itself.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// One of this many permits is out of reach for a single namespace.
const RESERVED: usize = 4;

/// How soon a reconciliation gets a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    High,
    Normal,
}

/// A semaphore with two priorities, fair between namespaces.
pub(crate) struct PrioritySemaphore {
    state: Mutex<State>,
    /// The most permits of one namespace.
    of_one_namespace: usize,
}

struct State {
    available: usize,
    namespaces: BTreeMap<String, Namespace>,
    next_ticket: u64,
}

#[derive(Default)]
struct Namespace {
    running: usize,
    high: VecDeque<Waiter>,
    normal: VecDeque<Waiter>,
}

struct Waiter {
    ticket: u64,
    /// Told that a permit was taken for it.
    granted: oneshot::Sender<()>,
}

/// One permit, released on drop.
pub(crate) struct Permit<'s> {
    semaphore: &'s PrioritySemaphore,
    namespace: String,
}

impl PrioritySemaphore {
    /// Creates a semaphore with this number of permits.
    pub(crate) fn new(permits: u16) -> Self {
        let permits = usize::from(permits);
        Self {
            state: Mutex::new(State {
                available: permits,
                namespaces: BTreeMap::new(),
                next_ticket: 0,
            }),
            of_one_namespace: permits - permits / RESERVED,
        }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self, namespace: &str, priority: Priority) -> Permit<'_> {
        let (granted, mut waiting) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            let queues = state.namespaces.entry(namespace.to_owned()).or_default();
            let queue = match priority {
                Priority::High => &mut queues.high,
                Priority::Normal => &mut queues.normal,
            };
            queue.push_back(Waiter { ticket, granted });
            self.grant(&mut state);
        }
        // Releases a permit that was granted just before the caller stopped waiting.
        let mut guard = Waiting {
            semaphore: self,
            namespace,
            granted: Some(&mut waiting),
        };
        if let Some(waiting) = guard.granted.as_mut() {
            // The sender is dropped only after it was used, or by `grant` if nobody waits any more.
            let _ = waiting.await;
        }
        guard.granted = None;
        Permit {
            semaphore: self,
            namespace: namespace.to_owned(),
        }
    }

    /// Whether a high-priority caller of a namespace waits for a permit.
    pub(crate) fn has_high_waiters(&self, namespace: &str) -> bool {
        let state = self.state.lock();
        let queues = state.namespaces.get(namespace);
        queues.is_some_and(|one| one.high.iter().any(|waiter| !waiter.granted.is_closed()))
    }

    /// Gives the available permits to waiting callers: first to the namespace with the fewest.
    fn grant(&self, state: &mut State) {
        while state.available > 0 {
            let candidates = state.namespaces.iter_mut().filter_map(|(name, one)| {
                if one.running >= self.of_one_namespace {
                    return None;
                }
                let ticket = one.next()?;
                Some((one.running, ticket, name))
            });
            let Some((_, _, name)) = candidates.min() else {
                return;
            };
            let name = name.clone();
            let Some(namespace) = state.namespaces.get_mut(&name) else {
                return;
            };
            if let Some(waiter) = namespace.pop()
                && waiter.granted.send(()).is_ok()
            {
                namespace.running += 1;
                state.available -= 1;
            }
        }
    }

    fn release(&self, namespace: &str) {
        let mut state = self.state.lock();
        state.available += 1;
        if let Some(one) = state.namespaces.get_mut(namespace) {
            one.running = one.running.saturating_sub(1);
            if one.running == 0 && one.next().is_none() {
                state.namespaces.remove(namespace);
            }
        }
        self.grant(&mut state);
    }
}

impl Namespace {
    /// The ticket of the next caller. Drops callers that stopped waiting.
    fn next(&mut self) -> Option<u64> {
        for queue in [&mut self.high, &mut self.normal] {
            while queue.front().is_some_and(|one| one.granted.is_closed()) {
                queue.pop_front();
            }
            if let Some(first) = queue.front() {
                return Some(first.ticket);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<Waiter> {
        self.high.pop_front().or_else(|| self.normal.pop_front())
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(&self.namespace);
    }
}

/// A caller that waits.
struct Waiting<'a> {
    semaphore: &'a PrioritySemaphore,
    namespace: &'a str,
    granted: Option<&'a mut oneshot::Receiver<()>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.as_mut() {
            granted.close();
            if granted.try_recv().is_ok() {
                self.semaphore.release(self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_high_priority_caller_overtakes_waiting_callers_of_its_namespace() {
        let semaphore = PrioritySemaphore::new(1);
        let first = semaphore.acquire("ns", Priority::Normal).await;
        let mut normal = pin!(semaphore.acquire("ns", Priority::Normal));
        assert!(normal.as_mut().now_or_never().is_none());
        let mut high = pin!(semaphore.acquire("ns", Priority::High));
        assert!(high.as_mut().now_or_never().is_none());
        assert!(semaphore.has_high_waiters("ns") && !semaphore.has_high_waiters("other"));
        drop(first);
        let second = high.as_mut().now_or_never();
        assert!(second.is_some() && normal.as_mut().now_or_never().is_none());
        drop(second);
        assert!(normal.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_cancelled_caller_does_not_keep_a_permit() {
        let semaphore = PrioritySemaphore::new(1);
        let permit = semaphore.acquire("ns", Priority::High).await;
        let waiting = semaphore.acquire("ns", Priority::High);
        assert!(waiting.now_or_never().is_none());
        {
            let mut granted = pin!(semaphore.acquire("ns", Priority::Normal));
            assert!(granted.as_mut().now_or_never().is_none());
            drop(permit);
            // Dropped after it was granted, before it was polled.
        }
        assert!(
            semaphore
                .acquire("other", Priority::Normal)
                .now_or_never()
                .is_some()
        );
    }

    /// Issue I, row 14.
    #[tokio::test]
    async fn new_resources_of_one_namespace_do_not_delay_another_namespace() {
        let semaphore = PrioritySemaphore::new(16);
        let mut running = Vec::new();
        let mut waiting = Vec::new();
        for _ in 0..40 {
            let mut one = Box::pin(semaphore.acquire("hostile", Priority::High));
            match one.as_mut().now_or_never() {
                Some(permit) => running.push(permit),
                None => waiting.push(one),
            }
        }
        assert_eq!(running.len(), 12);
        let fair = semaphore.acquire("fair", Priority::Normal).now_or_never();
        assert!(fair.is_some());
    }

    #[tokio::test]
    async fn the_namespace_with_the_fewest_permits_comes_first() {
        let semaphore = PrioritySemaphore::new(2);
        let first = semaphore.acquire("a", Priority::Normal).await;
        let _second = semaphore.acquire("b", Priority::Normal).await;
        let mut again = pin!(semaphore.acquire("b", Priority::High));
        assert!(again.as_mut().now_or_never().is_none());
        let mut other = pin!(semaphore.acquire("c", Priority::Normal));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(again.now_or_never().is_none());
        assert!(other.now_or_never().is_some());
    }
}

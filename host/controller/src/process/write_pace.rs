//! Slows the writes of this operator while someone else changes resources.
//!
//! The author of a thousand resources and the operator that writes their objects share one API server. While
//! changes of resources arrive, a write starts only some time after the one before it, so that the API server
//! is free for at least as long as it works for this operator. Only the start of a write waits: a write that
//! takes long does not delay the next one for longer than [`LONGEST_GAP`].
//!
//! Slow writes delay everyone's resources, so the changes of one namespace slow them for a limited time only.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Method, Request};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Layer, Service};

/// How long a change slows writes.
const MEMORY: Duration = Duration::from_millis(500);
/// The most time between the starts of two writes.
const LONGEST_GAP: Duration = Duration::from_millis(50);
/// The gap is this many times as long as a write takes.
const SHARE: u32 = 4;
/// The weight of earlier writes in the average, for each new one.
const WEIGHT: u32 = 15;
/// How long the changes of one namespace slow writes without a pause: enough to create ten thousand resources.
const LONGEST_SLOW: Duration = Duration::from_secs(600);
/// A namespace that never pauses slows writes in one of so many seconds.
const RECOVERY: u32 = 20;
/// The most namespaces with recent changes. The changes of further ones do not slow writes.
const MAX_NAMESPACES: usize = 4096;

/// Slows the writes of all clones of a client.
#[derive(Clone, Default)]
pub struct WritePace(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When someone else last changed a resource, if that slows writes.
    changed: Option<Instant>,
    /// The namespaces with recent changes.
    namespaces: HashMap<String, Allowance>,
    /// When the next write may start.
    next: Option<Instant>,
    /// How long a write takes, on average.
    average: Duration,
}

/// For how long the changes of one namespace may slow writes.
struct Allowance {
    left: Duration,
    /// When a resource of the namespace last changed.
    changed: Instant,
}

/// A client whose writes are slowed.
pub struct Paced<S> {
    inner: S,
    pace: WritePace,
}

impl WritePace {
    /// Notes that someone else changed a resource of a namespace.
    pub(crate) fn note_change(&self, namespace: &str) {
        self.0.lock().note_change(namespace, Instant::now());
    }
}

impl State {
    fn note_change(&mut self, namespace: &str, now: Instant) {
        if self.namespaces.len() >= MAX_NAMESPACES {
            self.namespaces
                .retain(|_, allowance| allowance.at(now) < LONGEST_SLOW);
        }
        let is_known = self.namespaces.contains_key(namespace);
        if !is_known && self.namespaces.len() >= MAX_NAMESPACES {
            return;
        }
        let allowance = self.namespaces.entry(namespace.to_owned());
        let allowance = allowance.or_insert(Allowance {
            left: LONGEST_SLOW,
            changed: now,
        });
        // A change during the time of the one before it only adds the difference.
        let slowed = if is_known {
            now - allowance.changed
        } else {
            MEMORY
        };
        let left = allowance.at(now).checked_sub(slowed.min(MEMORY));
        *allowance = Allowance {
            left: left.unwrap_or_else(|| allowance.at(now)),
            changed: now,
        };
        if left.is_some() {
            self.changed = Some(now);
        }
    }

    /// When a write may start.
    fn start(&mut self, now: Instant) -> Instant {
        let is_slowed = self.changed.is_some_and(|at| now < at + MEMORY);
        if !is_slowed {
            return now;
        }
        let start = self.next.map_or(now, |next| next.max(now));
        self.next = Some(start + (self.average * SHARE).min(LONGEST_GAP));
        start
    }

    fn observe(&mut self, took: Duration) {
        self.average = (self.average * WEIGHT + took.min(LONGEST_GAP)) / (WEIGHT + 1);
    }
}

impl Allowance {
    /// What is left at a later time.
    fn at(&self, now: Instant) -> Duration {
        let recovered = now.duration_since(self.changed) / RECOVERY;
        (self.left + recovered).min(LONGEST_SLOW)
    }
}

impl<S> Layer<S> for WritePace {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Paced {
            inner,
            pace: self.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for Paced<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_paced = is_paced(request.method(), request.uri().path());
        // Nothing is sent before the future is polled.
        let response = self.inner.call(request);
        if !is_paced {
            return response.boxed();
        }
        let pace = self.pace.clone();
        async move {
            let start = pace.0.lock().start(Instant::now());
            tokio::time::sleep_until(start).await;
            let started = Instant::now();
            let response = response.await;
            pace.0.lock().observe(started.elapsed());
            response
        }
        .boxed()
    }
}

/// Whether a request writes an object of a namespace. A Lease cannot wait.
fn is_paced(method: &Method, path: &str) -> bool {
    let is_write = ![Method::GET, Method::HEAD].contains(method);
    is_write && path.contains("/namespaces/") && !path.contains("/leases")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_millis(10);

    fn state(changed: Option<Instant>, took: Duration) -> State {
        let mut state = State {
            changed,
            ..State::default()
        };
        for _ in 0..200 {
            state.observe(took);
        }
        state
    }

    /// How long the last of some writes waits that are ready at the same time.
    fn delay(state: &mut State, writes: u32, now: Instant) -> Duration {
        let starts = (0..writes).map(|_| state.start(now));
        starts.last().unwrap() - now
    }

    #[test]
    fn writes_wait_only_while_someone_changes_resources() {
        let now = Instant::now();
        assert_eq!(delay(&mut state(None, WRITE), 100, now), Duration::ZERO);
        let earlier = now.checked_sub(MEMORY);
        assert_eq!(delay(&mut state(earlier, WRITE), 100, now), Duration::ZERO);
        let mut slowed = state(Some(now), WRITE);
        let last = delay(&mut slowed, 11, now);
        let expected = WRITE * SHARE * 10;
        assert!(last > expected * 9 / 10 && last <= expected, "{last:?}");
        let later = now + Duration::from_secs(10);
        slowed.changed = Some(later);
        assert_eq!(slowed.start(later), later, "nothing waited meanwhile");
    }

    #[test]
    fn a_slow_api_server_delays_writes_by_a_bounded_time() {
        let now = Instant::now();
        let mut slow = state(Some(now), Duration::from_secs(30));
        assert_eq!(delay(&mut slow, 11, now), LONGEST_GAP * 10);
    }

    /// The part of an hour in which one namespace slows writes, after some hours of changes.
    fn slowed_part(pause: Duration) -> f64 {
        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        let mut state = state(None, WRITE);
        let mut slowed = Duration::ZERO;
        let mut now = start;
        while now < start + 4 * hour {
            let before = state.changed;
            state.note_change("team", now);
            if state.changed != before && now > start + 3 * hour {
                slowed += pause.min(MEMORY);
            }
            now += pause;
        }
        slowed.as_secs_f64() / hour.as_secs_f64()
    }

    #[test]
    fn the_changes_of_one_namespace_slow_writes_for_a_limited_time() {
        for pause in [50, 400, 2_000] {
            let part = slowed_part(Duration::from_millis(pause));
            assert!(part < 0.06, "{part} of the time with {pause} ms");
        }
        let rare = slowed_part(Duration::from_secs(60));
        assert!(rare > 0.008, "all of its changes count: {rare}");
    }

    #[test]
    fn namespaces_are_limited_separately() {
        let start = Instant::now();
        let mut state = state(None, WRITE);
        let mut now = start;
        while now < start + 2 * LONGEST_SLOW {
            state.note_change("busy", now);
            now += MEMORY;
        }
        let last = state.changed;
        assert!(last < Some(now - MEMORY), "the allowance is used up");
        state.note_change("other", now);
        assert_eq!(state.changed, Some(now));
        for number in 0..2 * MAX_NAMESPACES {
            state.note_change(&number.to_string(), now);
        }
        assert_eq!(state.namespaces.len(), MAX_NAMESPACES);
    }

    #[test]
    fn reads_and_leases_never_wait() {
        let deployment = "/apis/apps/v1/namespaces/a/deployments/b";
        assert!(is_paced(&Method::PATCH, deployment));
        assert!(!is_paced(&Method::GET, deployment));
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
        assert!(!is_paced(&Method::PUT, lease));
        let review = "/apis/authentication.k8s.io/v1/tokenreviews";
        assert!(!is_paced(&Method::POST, review));
    }
}

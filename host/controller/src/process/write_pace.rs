//! Slows the writes of this operator while someone else changes resources.
//!
//! The author of a thousand resources and the operator that writes their objects share one API server. While
//! changes of resources arrive, a write starts only some time after the one before it, so that the API server
//! is free for at least as long as it works for this operator. Only the start of a write waits: a write that
//! takes long does not delay the next one for longer than [`LONGEST_GAP`].

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Method, Request};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Layer, Service};

/// How long a change counts.
const MEMORY: Duration = Duration::from_millis(500);
/// The most time between the starts of two writes.
const LONGEST_GAP: Duration = Duration::from_millis(50);
/// The gap is this many times as long as a write takes.
const SHARE: u32 = 2;
/// The weight of earlier writes in the average, for each new one.
const WEIGHT: u32 = 15;

/// Slows the writes of all clones of a client.
#[derive(Clone, Default)]
pub struct WritePace(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When someone else last changed a resource.
    changed: Option<Instant>,
    /// When the next write may start.
    next: Option<Instant>,
    /// How long a write takes, on average.
    average: Duration,
}

/// A client whose writes are slowed.
pub struct Paced<S> {
    inner: S,
    pace: WritePace,
}

impl WritePace {
    /// Notes that someone else changed a resource.
    pub(crate) fn note_change(&self) {
        self.0.lock().changed = Some(Instant::now());
    }
}

impl State {
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

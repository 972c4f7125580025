//! Single flight: concurrent requests for one key share one execution and its result.

use std::collections::HashMap;
use std::hash::Hash;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// The executions in progress, by key.
pub(crate) struct SingleFlight<K, T, E> {
    running: Mutex<HashMap<K, Execution<T, E>>>,
}

type Execution<T, E> = Shared<BoxFuture<'static, Option<Result<T, E>>>>;

impl<K, T, E> SingleFlight<K, T, E>
where
    K: Eq + Hash + Clone,
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self {
            running: Mutex::new(HashMap::new()),
        }
    }

    /// Joins the execution for `key`, or starts one. An execution runs in a task of its own and
    /// continues if the caller that started it is dropped. Results are not cached.
    pub(crate) async fn run<F>(&self, key: K, start: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        loop {
            let execution = {
                let mut running = self.running.lock();
                let started = running.entry(key.clone()).or_insert_with(|| {
                    let task = tokio::spawn(start());
                    async move { task.await.ok() }.boxed().shared()
                });
                started.clone()
            };
            let result = execution.clone().await;
            {
                let mut running = self.running.lock();
                if running
                    .get(&key)
                    .is_some_and(|other| other.ptr_eq(&execution))
                {
                    running.remove(&key);
                }
            }
            // Without a result the task panicked, or its runtime ended: start another.
            if let Some(result) = result {
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn five_hundred_callers_share_one_execution_and_its_failure() {
        let single_flight: SingleFlight<&str, usize, &str> = SingleFlight::new();
        let count = Arc::new(AtomicUsize::new(0));
        let start = || {
            let count = Arc::clone(&count);
            async move {
                tokio::task::yield_now().await;
                match count.fetch_add(1, Ordering::SeqCst) {
                    0 => Err("refused"),
                    n => Ok(n),
                }
            }
        };
        let callers = (0..500).map(|_| single_flight.run("x", start));
        let results = futures::future::join_all(callers).await;
        assert!(results.iter().all(|result| *result == Err("refused")));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        // A failure is not cached.
        assert_eq!(single_flight.run("x", start).await, Ok(1));
    }

    #[tokio::test]
    async fn an_execution_continues_when_the_caller_that_started_it_is_dropped() {
        let single_flight: SingleFlight<u8, u8, ()> = SingleFlight::new();
        let (release, wait) = tokio::sync::oneshot::channel::<u8>();
        let wait = Mutex::new(Some(wait));
        let start = || {
            let wait = wait.lock().take();
            async move { wait.unwrap().await.map_err(|_| ()) }
        };
        {
            let dropped = single_flight.run(1, start);
            futures::pin_mut!(dropped);
            assert!(futures::poll!(dropped).is_pending());
        }
        release.send(7).unwrap();
        assert_eq!(single_flight.run(1, start).await, Ok(7));
    }
}

//! What is remembered: a bounded map in memory, and one flight for many who ask the same.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

pub(crate) mod store;

/// A map that forgets what was not used for longest.
pub(crate) struct Memory<K, V> {
    entries: Mutex<Entries<K, V>>,
    capacity: usize,
}

struct Entries<K, V> {
    map: HashMap<K, (V, u64)>,
    clock: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Memory<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: HashMap::new(),
                clock: 0,
            }),
            capacity,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = lock(&self.entries);
        entries.clock += 1;
        let now = entries.clock;
        let (value, used) = entries.map.get_mut(key)?;
        *used = now;
        Some(value.clone())
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut entries = lock(&self.entries);
        entries.clock += 1;
        let now = entries.clock;
        entries.map.insert(key, (value, now));
        if entries.map.len() > self.capacity {
            let oldest = entries.map.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                entries.map.remove(&key);
            }
        }
    }
}

/// Concurrent requests for one key become one; everybody gets its answer, good or bad.
pub(crate) struct Flights<K, T, E> {
    running: Mutex<HashMap<K, Flight<T, E>>>,
}

type Flight<T, E> = Shared<BoxFuture<'static, Option<Result<T, E>>>>;

impl<K, T, E> Flights<K, T, E>
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

    /// Joins the flight for `key`, or starts it. It runs to its end even when its starter goes away.
    pub(crate) async fn join<F>(&self, key: K, start: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        loop {
            let flight = {
                let mut running = lock(&self.running);
                let started = running.entry(key.clone()).or_insert_with(|| {
                    let task = tokio::spawn(start());
                    async move { task.await.ok() }.boxed().shared()
                });
                started.clone()
            };
            let answer = flight.clone().await;
            {
                let mut running = lock(&self.running);
                if running.get(&key).is_some_and(|other| other.ptr_eq(&flight)) {
                    running.remove(&key);
                }
            }
            // A flight without an answer was aborted with its runtime or panicked: start another.
            if let Some(answer) = answer {
                return answer;
            }
        }
    }
}

/// The maps hold plain data, which a panic elsewhere cannot leave half-changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_entry_not_used_for_longest_is_forgotten() {
        let memory = Memory::new(2);
        memory.put("a", 1);
        memory.put("b", 2);
        assert_eq!(memory.get(&"a"), Some(1));
        memory.put("c", 3);
        assert_eq!(
            (memory.get(&"a"), memory.get(&"b"), memory.get(&"c")),
            (Some(1), None, Some(3))
        );
    }

    #[tokio::test]
    async fn five_hundred_askers_share_one_flight_and_its_failure() {
        let flights: Flights<&str, usize, &str> = Flights::new();
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
        let askers = (0..500).map(|_| flights.join("x", start));
        let answers = futures::future::join_all(askers).await;
        assert!(answers.iter().all(|answer| *answer == Err("refused")));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        // A failure is not remembered.
        assert_eq!(flights.join("x", start).await, Ok(1));
    }

    #[tokio::test]
    async fn a_flight_goes_on_when_its_starter_leaves() {
        let flights: Flights<u8, u8, ()> = Flights::new();
        let (release, wait) = tokio::sync::oneshot::channel::<u8>();
        let wait = Mutex::new(Some(wait));
        let start = || {
            let wait = lock(&wait).take();
            async move { wait.unwrap().await.map_err(|_| ()) }
        };
        {
            let leaver = flights.join(1, start);
            futures::pin_mut!(leaver);
            assert!(futures::poll!(leaver).is_pending());
        }
        release.send(7).unwrap();
        assert_eq!(flights.join(1, start).await, Ok(7));
    }
}

//! Pools of threads for blocking work, one for each purpose.
//!
//! All pools take their threads from the runtime. Each pool uses a fixed number of them at most, so
//! that slow work of one purpose, such as resolving a name, never delays another, such as calling a
//! plugin. The runtime must allow at least [`THREADS`] blocking threads.

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Resolves host names. The resolver of the operating system blocks for up to half a minute.
/// As many as images are read at the same time, and some more for plugins and running servers.
pub static NAMES: Pool = Pool::new(16);
/// Searches image layers, at the speed at which a registry sends them. As many as the registry client
/// searches at the same time.
pub static LAYERS: Pool = Pool::new(6);
/// Reads and writes the disk cache of the registry client.
pub static FILES: Pool = Pool::new(2);
/// Generates configurations for reconciliations, by calling plugins.
pub static GENERATION: Pool = Pool::new(3);
/// Generates configurations for admission, by calling plugins.
pub static ADMISSION: Pool = Pool::new(3);
/// Parses, checks and converts large reviews of the API server.
pub static REVIEWS: Pool = Pool::new(2);
/// Loads plugins, and waits for the process that compiles them.
pub static LOADING: Pool = Pool::new(1);

/// Blocking threads that a runtime needs: those of all pools, and some for its own work and for
/// libraries.
pub const THREADS: usize = 16 + 6 + 2 + 3 + 3 + 2 + 1 + OTHER;
const OTHER: usize = 4;

/// A limited number of threads for one purpose.
pub struct Pool {
    permits: Semaphore,
}

impl Pool {
    /// Creates a pool with this number of threads.
    pub const fn new(threads: usize) -> Self {
        Self {
            permits: Semaphore::const_new(threads),
        }
    }

    /// Runs `work` on a thread of the pool, as soon as one is free. The work continues if the caller is
    /// dropped after it has started. Fails if the work panics.
    pub async fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // Fails only if the semaphore is closed, which no one does.
        let permit = self.permits.acquire().await.ok();
        let working = spawn_blocking(move || {
            // The thread holds the permit, because it may outlive the caller.
            let _permit = permit;
            work()
        });
        working.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    fn runtime(threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(threads)
            .build()
    }

    /// Issue I, row 15.
    #[test]
    fn a_pool_whose_threads_are_all_blocked_does_not_delay_another() -> std::io::Result<()> {
        static SLOW: Pool = Pool::new(2);
        static FAST: Pool = Pool::new(1);
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
        runtime(3)?.block_on(async {
            let slow: Vec<_> = (0..50)
                .map(|_| {
                    let blocked = blocked.clone();
                    tokio::spawn(SLOW.run(move || {
                        if let Ok(blocked) = blocked.lock() {
                            let _ = blocked.recv();
                        }
                    }))
                })
                .collect();
            tokio::task::yield_now().await;
            let fast = tokio::time::timeout(Duration::from_secs(5), FAST.run(|| 7)).await;
            assert_eq!(fast.ok().and_then(Result::ok), Some(7));
            drop(release);
            for one in slow {
                assert!(one.await.is_ok());
            }
        });
        Ok(())
    }

    #[test]
    fn the_thread_of_a_dropped_caller_counts_until_its_work_ends() -> std::io::Result<()> {
        static ONE: Pool = Pool::new(1);
        let (release, blocked) = mpsc::channel::<()>();
        runtime(2)?.block_on(async {
            let mut first = Box::pin(ONE.run(move || blocked.recv().is_err()));
            assert!(first.as_mut().now_or_never().is_none());
            drop(first);
            let mut second = Box::pin(ONE.run(|| ()));
            let waited = tokio::time::timeout(Duration::from_millis(50), second.as_mut()).await;
            assert!(waited.is_err());
            drop(release);
            assert!(second.await.is_ok());
        });
        Ok(())
    }

    #[test]
    fn work_that_panics_frees_its_thread() -> std::io::Result<()> {
        static ONE: Pool = Pool::new(1);
        runtime(1)?.block_on(async {
            assert!(ONE.run(|| panic!("on purpose")).await.is_err());
            assert!(ONE.run(|| ()).await.is_ok());
        });
        Ok(())
    }
}

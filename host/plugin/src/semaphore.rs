//! A counting semaphore for threads.

use parking_lot::{Condvar, Mutex};

/// A fixed number of permits. A thread that finds none waits for one.
pub(crate) struct Semaphore {
    available: Mutex<usize>,
    released: Condvar,
}

/// One permit, released on drop.
pub(crate) struct Permit<'s>(&'s Semaphore);

impl Semaphore {
    pub(crate) fn new(permits: usize) -> Self {
        Self {
            available: Mutex::new(permits),
            released: Condvar::new(),
        }
    }

    /// Takes a permit, and blocks while there is none.
    pub(crate) fn acquire(&self) -> Permit<'_> {
        let mut available = self.available.lock();
        while *available == 0 {
            self.released.wait(&mut available);
        }
        *available -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.available.lock() += 1;
        // Makes no system call when no thread waits.
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn at_most_two_threads_hold_a_permit_and_every_thread_gets_one() {
        let semaphore = Semaphore::new(2);
        let (holding, most, acquired) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _permit = semaphore.acquire();
                        most.fetch_max(holding.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        holding.fetch_sub(1, SeqCst);
                        acquired.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(acquired.load(SeqCst), 1_600);
        assert!(most.load(SeqCst) <= 2);
    }
}

//! How many may be somewhere at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A number of places, each taken by one at a time.
pub(crate) struct Places {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free: usize,
    /// To tell them costs a system call, so that nobody is told in vain.
    waiting: usize,
}

/// A place taken; free again when dropped.
pub(crate) struct Place<'p>(&'p Places);

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: count,
                waiting: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Takes a place, and waits for one while there is none.
    pub(crate) fn enter(&self) -> Place<'_> {
        let mut state = self.lock();
        while state.free == 0 {
            state.waiting += 1;
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
        Place(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free += 1;
        if state.waiting > 0 {
            self.0.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_are_in_than_there_are_places_and_everybody_gets_one() {
        let places = Places::new(2);
        let (inside, most, entered) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _place = places.enter();
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        entered.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(entered.load(SeqCst), 1_600);
        assert!(most.load(SeqCst) <= 2);
    }
}

//! Answers already given.
//!
//! A plugin is a pure function, so an answer holds for ever: the key is what was asked of which
//! component, and there is no time to live. Only answers are kept; a fault may have been this
//! machine's. Bounded by entries and bytes; the oldest leave first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::request::RawAnswer;

/// What was asked of whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) component: Arc<str>,
    pub(crate) call: &'static str,
    pub(crate) shapes: String,
    pub(crate) input: String,
}

/// An answer and its price.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) answer: Arc<RawAnswer>,
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
}

/// How much is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Answers; 0 remembers nothing.
    pub entries: usize,
    /// Bytes of all answers together.
    pub bytes: usize,
}

impl Default for Memory {
    /// 4,096 answers of 32 MiB together: some hundred resources.
    fn default() -> Self {
        Self {
            entries: 4_096,
            bytes: 32 << 20,
        }
    }
}

/// The answers of all plugins of a host.
#[derive(Debug)]
pub(crate) struct Results {
    memory: Memory,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: HashMap<Key, Remembered>,
    /// Keys by age, oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Results {
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            memory,
            kept: Mutex::default(),
        }
    }

    pub(crate) fn recall(&self, key: &Key) -> Option<Remembered> {
        self.lock().answers.get(key).cloned()
    }

    pub(crate) fn remember(&self, key: Key, answer: Remembered) {
        let size = answer.answer.size();
        if self.memory.entries == 0 || size > self.memory.bytes {
            return;
        }
        let mut kept = self.lock();
        if kept.answers.insert(key.clone(), answer).is_some() {
            // Two calls at once: the answers are equal, and so is what they weigh.
            return;
        }
        kept.order.push_back(key);
        kept.bytes += size;
        while kept.order.len() > self.memory.entries || kept.bytes > self.memory.bytes {
            let Some(oldest) = kept.order.pop_front() else {
                return;
            };
            if let Some(gone) = kept.answers.remove(&oldest) {
                kept.bytes -= gone.answer.size();
            }
        }
    }

    /// A panic elsewhere cannot leave the maps half-changed in a way that matters: at worst an
    /// answer is forgotten.
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llsd_adapter_sdk::Detection;

    fn key(input: &str) -> Key {
        Key {
            component: "sha256:c".into(),
            call: "detect",
            shapes: String::new(),
            input: input.into(),
        }
    }

    fn answer(text: &str) -> Remembered {
        let answer = Arc::new(RawAnswer::Detection(Detection::One(text.into())));
        Remembered {
            answer,
            fuel: 1,
            memory_bytes: 0,
        }
    }

    #[test]
    fn the_oldest_answers_leave_when_there_are_too_many() {
        let results = Results::new(Memory {
            entries: 2,
            bytes: 1_000,
        });
        for input in ["a", "b", "c"] {
            results.remember(key(input), answer(input));
        }
        assert!(results.recall(&key("a")).is_none());
        assert!(results.recall(&key("b")).is_some() && results.recall(&key("c")).is_some());
    }

    #[test]
    fn the_oldest_answers_leave_when_they_are_too_big() {
        let results = Results::new(Memory {
            entries: 100,
            bytes: 10,
        });
        results.remember(key("a"), answer("123456"));
        results.remember(key("b"), answer("123456"));
        assert!(results.recall(&key("a")).is_none() && results.recall(&key("b")).is_some());
        results.remember(key("c"), answer("larger than everything"));
        assert!(results.recall(&key("c")).is_none() && results.recall(&key("b")).is_some());
    }

    #[test]
    fn remembering_twice_weighs_once() {
        let results = Results::new(Memory {
            entries: 100,
            bytes: 10,
        });
        for _ in 0..5 {
            results.remember(key("a"), answer("123456"));
        }
        assert_eq!(results.lock().bytes, 6);
    }
}

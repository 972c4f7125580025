//! Decides which waiting read starts next, so that no namespace delays another.
//!
//! A namespace runs few reads at a time. A namespace whose last read failed to get an answer, or that
//! has not read anything yet, uses only a part of all slots: the rest is free for namespaces whose
//! registries answer. Among the namespaces that may start a read, the one with the fewest running
//! reads comes first, then the one that waits longest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many reads run at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) total: usize,
    pub(super) of_one_namespace: usize,
    /// For all namespaces together whose registries did not answer yet.
    pub(super) unproven: usize,
}

/// The waiting and the running reads, by namespace.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    shares: Shares,
    namespaces: BTreeMap<String, Namespace<T>>,
    /// The namespaces whose last read got an answer.
    proven: BTreeSet<String>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Namespace<T> {
    waiting: VecDeque<(u64, T)>,
    running: usize,
}

impl<T> FairQueue<T> {
    pub(super) fn new(shares: Shares) -> Self {
        Self {
            shares,
            namespaces: BTreeMap::new(),
            proven: BTreeSet::new(),
            next_ticket: 0,
        }
    }

    /// Adds a read.
    pub(super) fn push(&mut self, namespace: &str, read: T) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let namespace = self.namespaces.entry(namespace.to_owned());
        let namespace = namespace.or_insert_with(|| Namespace {
            waiting: VecDeque::new(),
            running: 0,
        });
        namespace.waiting.push_back((ticket, read));
    }

    /// Takes the next read that may start. [`FairQueue::finish`] must follow.
    pub(super) fn pop(&mut self) -> Option<T> {
        let running: usize = self.namespaces.values().map(|one| one.running).sum();
        let is_proven = |name: &String| self.proven.contains(name);
        let unproven: usize = self
            .namespaces
            .iter()
            .filter(|(name, _)| !is_proven(name))
            .map(|(_, one)| one.running)
            .sum();
        let Shares {
            total,
            of_one_namespace,
            unproven: unproven_share,
        } = self.shares;
        if running >= total {
            return None;
        }
        let may_start = |name: &String, one: &Namespace<T>| {
            one.running < of_one_namespace && (is_proven(name) || unproven < unproven_share)
        };
        let candidates = self.namespaces.iter().filter_map(|(name, one)| {
            let (ticket, _) = one.waiting.front()?;
            may_start(name, one).then(|| (one.running, *ticket, name.clone()))
        });
        let (_, _, name) = candidates.min()?;
        let namespace = self.namespaces.get_mut(&name)?;
        let (_, read) = namespace.waiting.pop_front()?;
        namespace.running += 1;
        Some(read)
    }

    /// Ends a running read. `has_answered`: whether the registry answered.
    pub(super) fn finish(&mut self, name: &str, has_answered: bool) {
        if has_answered {
            self.proven.insert(name.to_owned());
        } else {
            self.proven.remove(name);
        }
        let Some(namespace) = self.namespaces.get_mut(name) else {
            return;
        };
        namespace.running = namespace.running.saturating_sub(1);
        if namespace.running == 0 && namespace.waiting.is_empty() {
            self.namespaces.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares {
        total: 4,
        of_one_namespace: 2,
        unproven: 3,
    };

    fn queue(waiting: &[(&str, usize)]) -> FairQueue<String> {
        let mut queue = FairQueue::new(SHARES);
        for (namespace, count) in waiting {
            for number in 0..*count {
                queue.push(namespace, format!("{namespace}{number}"));
            }
        }
        queue
    }

    fn popped(queue: &mut FairQueue<String>) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn forty_reads_of_one_namespace_leave_slots_for_another() {
        let mut queue = queue(&[("hostile", 40), ("fair", 1)]);
        assert_eq!(popped(&mut queue), ["hostile0", "fair0", "hostile1"]);
        queue.finish("hostile", false);
        assert_eq!(popped(&mut queue), ["hostile2"]);
    }

    #[test]
    fn namespaces_whose_registries_do_not_answer_share_a_part_of_the_slots() {
        let mut queue = queue(&[("fair", 1)]);
        assert_eq!(popped(&mut queue), ["fair0"]);
        queue.finish("fair", true);
        for hostile in ["a", "b", "c", "d"] {
            queue.push(hostile, format!("{hostile}0"));
            queue.push(hostile, format!("{hostile}1"));
        }
        assert_eq!(popped(&mut queue), ["a0", "b0", "c0"]);
        queue.push("fair", "fair1".to_owned());
        assert_eq!(popped(&mut queue), ["fair1"]);
    }

    #[test]
    fn a_namespace_without_running_reads_comes_first() {
        let mut queue = queue(&[("a", 3)]);
        assert_eq!(popped(&mut queue), ["a0", "a1"]);
        queue.push("b", "b0".to_owned());
        queue.finish("a", true);
        assert_eq!(queue.pop().as_deref(), Some("b0"));
        assert_eq!(queue.pop().as_deref(), Some("a2"));
    }
}

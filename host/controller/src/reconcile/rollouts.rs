//! Paced rollouts: existing resources take an update a few at a time, and stop at the first failure.
//!
//! The state is in the cluster: each revision that a rollout creates has a mark, which says how far its
//! resource is. From the marks of all resources and the updates that they wait for follow who is next
//! and whether a rollout is halted, so that another leader continues where the last one stopped. The
//! ConfigMap with the progress is only a report.

mod deployment_state;
mod progress;
mod publish;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::revisions::{Mark, MarkState};
use super::updates::Update;
pub(crate) use deployment_state::DeploymentState;
pub(crate) use progress::Progress;
pub(crate) use publish::coordinate;

/// Namespace and name of a resource.
pub(crate) type Resource = (String, String);
/// For each rollout its target.
pub(crate) type Targets = BTreeMap<String, String>;

/// The resources that wait for updates, and those whose turn it is.
#[derive(Default)]
pub(crate) struct Rollouts {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Resource, Waiting>,
    granted: BTreeMap<Resource, Targets>,
    /// Resources that were reconciled since the operator started.
    seen: BTreeSet<Resource>,
    /// Until when the API server may refuse the pods of a resource that is being updated.
    deadlines: BTreeMap<Resource, Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Waiting {
    targets: Targets,
    /// Whether its pods are available now. Otherwise a failure would not be the rollout's.
    is_available: bool,
}

impl Rollouts {
    /// Registers the updates that a resource follows. Returns those whose turn it is.
    pub(crate) fn offer<'a>(
        &self,
        resource: &Resource,
        updates: &'a [Update],
        is_available: bool,
    ) -> Vec<&'a Update> {
        let followed = updates.iter().filter(|update| update.is_followed);
        let targets: Targets = followed
            .map(|update| (update.part.rollout(), update.target.clone()))
            .collect();
        let mut state = self.state.lock();
        let is_new = state.seen.insert(resource.clone());
        let waiting = (!targets.is_empty()).then_some(Waiting {
            targets,
            is_available,
        });
        let before = match &waiting {
            Some(waiting) => state.waiting.insert(resource.clone(), waiting.clone()),
            None => state.waiting.remove(resource),
        };
        if waiting.is_none() {
            state.granted.remove(resource);
        }
        if before != waiting || is_new {
            self.changed.notify_one();
        }
        let granted = state.granted.get(resource);
        let is_granted =
            |update: &&Update| granted.is_some_and(|all| all.contains_key(&update.part.rollout()));
        let followed = updates.iter().filter(|update| update.is_followed);
        followed.filter(is_granted).collect()
    }

    /// The turn of a resource is over: its new resolution is recorded, or someone has to change
    /// something first.
    pub(crate) fn finish(&self, resource: &Resource) {
        let mut state = self.state.lock();
        state.granted.remove(resource);
        state.waiting.remove(resource);
        state.deadlines.remove(resource);
        self.changed.notify_one();
    }

    /// Starts the deadline for the first new pod of a resource, unless it has started. Returns whether
    /// it is over. Another leader starts it again.
    pub(crate) fn is_overdue(&self, resource: &Resource, deadline: Duration, now: Instant) -> bool {
        let mut state = self.state.lock();
        let ends = state.deadlines.entry(resource.clone());
        *ends.or_insert(now + deadline) <= now
    }

    /// The time until the deadline for the first new pod of a resource is over.
    pub(crate) fn time_left(&self, resource: &Resource, now: Instant) -> Option<Duration> {
        let ends = self.state.lock().deadlines.get(resource).copied()?;
        Some(ends.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Declares that a mark, or a setting of rollouts, changed.
    pub(crate) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Counts a resource as reconciled, also if it failed.
    pub(crate) fn see(&self, resource: &Resource) {
        if self.state.lock().seen.insert(resource.clone()) {
            self.changed.notify_one();
        }
    }

    /// Drops a deleted resource.
    pub(crate) fn forget(&self, resource: &Resource) {
        let mut state = self.state.lock();
        state.granted.remove(resource);
        state.waiting.remove(resource);
        state.seen.remove(resource);
        state.deadlines.remove(resource);
        self.changed.notify_one();
    }

    /// Decides whose turn it is, in the order of namespaces and names. Returns the resources whose turn
    /// begins.
    fn grant(&self, marks: &BTreeMap<Resource, Mark>, max_concurrent: usize) -> Vec<Resource> {
        let mut state = self.state.lock();
        let is_running = |one: &Mark| one.state == MarkState::Progressing;
        let running = marks.values().filter(|mark| is_running(mark)).count();
        let halted = progress::halted(marks);
        let mut free = max_concurrent.saturating_sub(running + state.granted.len());
        let mut begun = Vec::new();
        for (resource, waiting) in state.waiting.clone() {
            let is_busy = state.granted.contains_key(&resource)
                || marks.get(&resource).is_some_and(is_running);
            let mut targets = waiting.targets;
            targets.retain(|rollout, target| !halted.contains(&(rollout, &*target)));
            if free == 0 || is_busy || !waiting.is_available || targets.is_empty() {
                continue;
            }
            state.granted.insert(resource.clone(), targets);
            begun.push(resource);
            free -= 1;
        }
        begun
    }

    /// The progress of each rollout.
    fn progress(&self, marks: &BTreeMap<Resource, Mark>) -> BTreeMap<String, Progress> {
        let state = self.state.lock();
        let waiting = state
            .waiting
            .iter()
            .map(|(resource, one)| (resource, &one.targets));
        progress::of(marks, waiting)
    }

    /// The number of resources that were reconciled since the operator started.
    fn seen(&self) -> usize {
        self.state.lock().seen.len()
    }

    /// Whether no resource waits for an update.
    fn is_idle(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Whether all of these resources were reconciled since the operator started.
    fn has_seen(&self, resources: &BTreeSet<Resource>) -> bool {
        resources.is_subset(&self.state.lock().seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::updates::Part;

    fn resource(name: &str) -> Resource {
        ("ns".to_owned(), name.to_owned())
    }

    fn update(target: &str) -> Update {
        Update {
            part: Part::CaBundle,
            target: target.to_owned(),
            change: String::new(),
            is_followed: true,
        }
    }

    fn mark(target: &str, state: MarkState) -> Mark {
        Mark {
            targets: [("ca-bundle".to_owned(), target.to_owned())].into(),
            state,
            message: String::new(),
        }
    }

    fn names(resources: Vec<Resource>) -> Vec<String> {
        resources.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn resources_take_turns_and_the_next_waits_for_the_pods_of_the_one_before() {
        let rollouts = Rollouts::default();
        for name in ["a", "b", "c"] {
            rollouts.offer(&resource(name), &[update("1")], name != "b");
        }
        let mut marks = BTreeMap::new();
        assert_eq!(names(rollouts.grant(&marks, 1)), ["a"]);
        assert_eq!(names(rollouts.grant(&marks, 1)), [""; 0]);
        assert_eq!(
            rollouts.offer(&resource("a"), &[update("1")], true).len(),
            1
        );
        rollouts.finish(&resource("a"));
        marks.insert(resource("a"), mark("1", MarkState::Progressing));
        assert_eq!(names(rollouts.grant(&marks, 1)), [""; 0]);
        marks.insert(resource("a"), mark("1", MarkState::Updated));
        // `b` has no pods that are available now.
        assert_eq!(names(rollouts.grant(&marks, 1)), ["c"]);
    }

    #[test]
    fn a_failure_halts_its_own_target_only() {
        let rollouts = Rollouts::default();
        rollouts.offer(&resource("b"), &[update("1")], true);
        let marks = BTreeMap::from([(resource("a"), mark("1", MarkState::RolledBack))]);
        assert_eq!(names(rollouts.grant(&marks, 1)), [""; 0]);
        let progress = rollouts.progress(&marks);
        assert_eq!(progress["ca-bundle"].summary(), "0 of 2, halted at ns/a");
        rollouts.offer(&resource("b"), &[update("2")], true);
        assert_eq!(names(rollouts.grant(&marks, 1)), ["b"]);
    }

    #[test]
    fn two_targets_of_a_rollout_can_be_halted() {
        let rollouts = Rollouts::default();
        // The first target failed for `c`, which keeps its mark, and the second one for `a`.
        let marks = BTreeMap::from([
            (resource("a"), mark("2", MarkState::RolledBack)),
            (resource("c"), mark("1", MarkState::RolledBack)),
        ]);
        for target in ["1", "2"] {
            rollouts.offer(&resource("b"), &[update(target)], true);
            assert_eq!(names(rollouts.grant(&marks, 1)), [""; 0], "{target}");
        }
    }

    #[test]
    fn the_deadline_for_the_first_pod_starts_once_and_ends_with_the_turn() {
        let (rollouts, a) = (Rollouts::default(), resource("a"));
        let deadline = Duration::from_secs(10);
        let start = Instant::now();
        assert_eq!(rollouts.time_left(&a, start), None);
        assert!(!rollouts.is_overdue(&a, deadline, start));
        let later = start + Duration::from_secs(9);
        assert!(!rollouts.is_overdue(&a, deadline, later));
        let left = rollouts.time_left(&a, later);
        assert_eq!(left, Some(Duration::from_secs(1)));
        let end = start + deadline;
        assert!(rollouts.is_overdue(&a, deadline, end));
        assert_eq!(rollouts.time_left(&a, end), None);
        rollouts.finish(&a);
        assert!(!rollouts.is_overdue(&a, deadline, end));
    }
}

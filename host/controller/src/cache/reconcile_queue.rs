//! Limits concurrent reconciliations: fairly between namespaces, and new resources first within one.
//!
//! When many resources are created at once, the pods of the first ones cause a stream of status
//! updates. Without priorities those updates would delay the start of the last resources. Priorities
//! count within a namespace only, and a part of the permits is never given to a single namespace, so
//! that a namespace with many resources delays only itself.
//!
//! A resource that has to wait is remembered by its name, and triggered once there is a permit for it.
//! A waiting task for each of ten thousand resources would take hundreds of megabytes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ReconcileTrigger;

/// One of this many permits is out of reach for a single namespace.
const RESERVED: usize = 4;

/// How soon a reconciliation gets a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    High,
    Normal,
}

/// The resources that wait for a permit, with two priorities, fair between namespaces.
pub(crate) struct ReconcileQueue {
    state: Mutex<State>,
    /// The most permits of one namespace.
    of_one_namespace: usize,
    trigger: ReconcileTrigger,
}

struct State {
    available: usize,
    namespaces: BTreeMap<String, Namespace>,
    next_ticket: u64,
}

/// The order of waiting resources of one namespace.
type Place = (Priority, u64);

#[derive(Default)]
struct Namespace {
    /// Permits that are in use or granted.
    permits: usize,
    /// Resources that have a permit and were triggered.
    granted: HashSet<Arc<str>>,
    waiting: BTreeMap<Place, Arc<str>>,
    places: HashMap<Arc<str>, Place>,
}

/// One permit, released on drop.
pub(crate) struct Permit<'q> {
    queue: &'q ReconcileQueue,
    namespace: String,
}

impl ReconcileQueue {
    /// Creates a queue with this number of permits.
    pub(crate) fn new(permits: u16, trigger: ReconcileTrigger) -> Self {
        let permits = usize::from(permits);
        Self {
            state: Mutex::new(State {
                available: permits,
                namespaces: BTreeMap::new(),
                next_ticket: 0,
            }),
            of_one_namespace: permits - permits / RESERVED,
            trigger,
        }
    }

    /// The permit for which a resource was triggered.
    pub(crate) fn granted(&self, namespace: &str, name: &str) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        let is_granted = state.namespaces.get_mut(namespace)?.granted.remove(name);
        is_granted.then(|| self.permit(namespace))
    }

    /// A permit, if one is available. Otherwise the resource is triggered when it has one.
    ///
    /// The controller spawns a task for each triggered resource. All of them get here before the first one goes
    /// on with its permit, so that they wait in this queue, and not in that of tokio, which has no priorities.
    pub(crate) async fn take(
        &self,
        namespace: &str,
        name: &str,
        priority: Priority,
    ) -> Option<Permit<'_>> {
        let permit = self.try_take(namespace, name, priority)?;
        tokio::task::yield_now().await;
        Some(permit)
    }

    fn try_take(&self, namespace: &str, name: &str, priority: Priority) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let one = state.namespaces.entry(namespace.to_owned()).or_default();
        one.wait(name, (priority, ticket));
        let mut granted = self.grant(&mut state);
        drop(state);
        // The caller needs no trigger.
        granted.retain(|(other, one)| other != namespace || **one != *name);
        self.trigger(granted);
        self.granted(namespace, name)
    }

    /// Drops what is stored for a deleted resource.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        // A granted permit is released on drop.
        drop(self.granted(namespace, name));
        let mut state = self.state.lock();
        if let Some(one) = state.namespaces.get_mut(namespace) {
            one.stop_waiting(name);
            if one.is_idle() {
                state.namespaces.remove(namespace);
            }
        }
    }

    fn permit(&self, namespace: &str) -> Permit<'_> {
        Permit {
            queue: self,
            namespace: namespace.to_owned(),
        }
    }

    /// Gives the available permits to waiting resources: first to the namespace with the fewest.
    fn grant(&self, state: &mut State) -> Vec<(String, Arc<str>)> {
        let mut granted = Vec::new();
        while state.available > 0 {
            let candidates = state.namespaces.iter_mut().filter_map(|(name, one)| {
                if one.permits >= self.of_one_namespace {
                    return None;
                }
                let (_, ticket) = *one.waiting.first_key_value()?.0;
                Some((one.permits, ticket, name, one))
            });
            let next = candidates.min_by_key(|(permits, ticket, ..)| (*permits, *ticket));
            let Some((_, _, namespace, one)) = next else {
                break;
            };
            let Some((_, name)) = one.waiting.pop_first() else {
                break;
            };
            one.places.remove(&name);
            one.permits += 1;
            one.granted.insert(name.clone());
            state.available -= 1;
            granted.push((namespace.clone(), name));
        }
        granted
    }

    fn release(&self, namespace: &str) {
        let mut state = self.state.lock();
        state.available += 1;
        if let Some(one) = state.namespaces.get_mut(namespace) {
            one.permits = one.permits.saturating_sub(1);
            if one.is_idle() {
                state.namespaces.remove(namespace);
            }
        }
        let granted = self.grant(&mut state);
        drop(state);
        self.trigger(granted);
    }

    fn trigger(&self, granted: Vec<(String, Arc<str>)>) {
        for (namespace, name) in granted {
            self.trigger.request(&namespace, &name);
        }
    }
}

impl Namespace {
    /// Waits, unless the resource waits already or has a permit.
    fn wait(&mut self, name: &str, place: Place) {
        if self.places.contains_key(name) || self.granted.contains(name) {
            return;
        }
        let name: Arc<str> = name.into();
        self.places.insert(name.clone(), place);
        self.waiting.insert(place, name);
    }

    fn stop_waiting(&mut self, name: &str) {
        if let Some(place) = self.places.remove(name) {
            self.waiting.remove(&place);
        }
    }

    fn is_idle(&self) -> bool {
        self.permits == 0 && self.waiting.is_empty()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.queue.release(&self.namespace);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::{FutureExt, Stream, StreamExt};
    use tokio::task::JoinSet;

    use super::super::ResourceRef;
    use super::*;

    /// A queue, and the resources that it triggers.
    struct Fixture {
        queue: ReconcileQueue,
        triggered: Pin<Box<dyn Stream<Item = ResourceRef>>>,
    }

    impl Fixture {
        fn new(permits: u16) -> Self {
            let (trigger, triggered) = ReconcileTrigger::new();
            Self {
                queue: ReconcileQueue::new(permits, trigger),
                triggered: Box::pin(triggered),
            }
        }

        /// The name of the next triggered resource.
        fn next(&mut self) -> Option<String> {
            let next = self.triggered.next().now_or_never().flatten();
            next.map(|resource| resource.name)
        }
    }

    #[test]
    fn a_resource_with_high_priority_overtakes_waiting_resources_of_its_namespace() {
        let mut fixture = Fixture::new(1);
        let queue = &fixture.queue;
        let first = queue.try_take("ns", "first", Priority::Normal);
        assert!(first.is_some());
        assert!(queue.try_take("ns", "normal", Priority::Normal).is_none());
        assert!(queue.try_take("ns", "high", Priority::High).is_none());
        drop(first);
        assert!(queue.granted("ns", "normal").is_none());
        drop(queue.granted("ns", "high"));
        assert!(queue.granted("ns", "normal").is_some());
        assert_eq!(fixture.next().as_deref(), Some("high"));
        assert_eq!(fixture.next().as_deref(), Some("normal"));
        assert_eq!(fixture.next(), None);
    }

    #[test]
    fn a_resource_that_waits_is_triggered_once() {
        let mut fixture = Fixture::new(1);
        let queue = &fixture.queue;
        let first = queue.try_take("ns", "first", Priority::Normal);
        for _ in 0..3 {
            assert!(queue.try_take("ns", "again", Priority::Normal).is_none());
        }
        drop(first);
        assert!(queue.granted("ns", "again").is_some());
        assert_eq!(fixture.next().as_deref(), Some("again"));
        assert_eq!(fixture.next(), None);
    }

    #[test]
    fn a_deleted_resource_does_not_keep_a_permit() {
        let mut fixture = Fixture::new(1);
        let queue = &fixture.queue;
        let first = queue.try_take("ns", "first", Priority::High);
        for name in ["granted", "waiting", "last"] {
            assert!(queue.try_take("ns", name, Priority::Normal).is_none());
        }
        drop(first);
        queue.forget("ns", "waiting");
        queue.forget("ns", "granted");
        assert!(queue.granted("ns", "last").is_some());
        assert_eq!(fixture.next().as_deref(), Some("granted"));
        assert_eq!(fixture.next().as_deref(), Some("last"));
        assert!(fixture.queue.state.lock().namespaces.is_empty());
    }

    /// What a new leader does: it triggers all resources at once, and a task of each takes what it gets.
    #[tokio::test]
    async fn a_changed_resource_overtakes_resources_that_were_triggered_before_it() {
        let (trigger, triggered) = ReconcileTrigger::new();
        let queue = Arc::new(ReconcileQueue::new(4, trigger.clone()));
        let reconciled = Arc::<Mutex<Vec<String>>>::default();
        for number in 0..100 {
            trigger.request("ns", &number.to_string());
        }
        trigger.request("ns", "changed");
        let mut triggered = std::pin::pin!(triggered);
        let mut tasks = JoinSet::new();
        while reconciled.lock().len() < 101 {
            let one = tokio::select! {
                biased;
                Some(one) = triggered.next() => one,
                Some(_) = tasks.join_next() => continue,
            };
            let (queue, reconciled) = (queue.clone(), reconciled.clone());
            tasks.spawn(async move {
                let priority = match one.name.as_str() {
                    "changed" => Priority::High,
                    _ => Priority::Normal,
                };
                let permit = match queue.granted("ns", &one.name) {
                    Some(permit) => Some(permit),
                    None => queue.take("ns", &one.name, priority).await,
                };
                if permit.is_some() {
                    reconciled.lock().push(one.name);
                }
            });
        }
        let reconciled = reconciled.lock();
        let place = reconciled.iter().position(|name| name == "changed");
        // A single namespace has three of four permits.
        assert_eq!(place, Some(3), "{reconciled:?}");
    }

    /// Issue I, row 14.
    #[test]
    fn new_resources_of_one_namespace_do_not_delay_another_namespace() {
        let Fixture { queue, .. } = Fixture::new(16);
        let names = (0..40).map(|number| number.to_string());
        let running: Vec<_> = names
            .filter_map(|name| queue.try_take("hostile", &name, Priority::High))
            .collect();
        assert_eq!(running.len(), 12);
        assert!(queue.try_take("fair", "one", Priority::Normal).is_some());
    }

    #[test]
    fn the_namespace_with_the_fewest_permits_comes_first() {
        let Fixture { queue, .. } = Fixture::new(2);
        let first = queue.try_take("a", "a", Priority::Normal);
        let _second = queue.try_take("b", "b", Priority::Normal);
        assert!(queue.try_take("b", "again", Priority::High).is_none());
        assert!(queue.try_take("c", "other", Priority::Normal).is_none());
        drop(first);
        assert!(queue.granted("b", "again").is_none());
        assert!(queue.granted("c", "other").is_some());
    }
}

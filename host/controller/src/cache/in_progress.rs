//! Changes that arrive while their resource is being reconciled.
//!
//! A watch often delivers an object before the API server answers the write that changed it, so nobody knows
//! yet that the change is our own. The changes of a resource are therefore held until its reconciliation
//! ends. Those of the reconciliation itself are dropped then, and the others cause another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::watches::Source;
use super::{ClusterCache, ReconcileTrigger, StatusCache};

/// A reconciliation makes fewer changes. If there are more, some are of others.
const MAX_CHANGES: usize = 64;

/// The resources that are being reconciled.
pub(crate) struct InProgress {
    /// The changes of each resource, by its namespace and name.
    resources: Mutex<HashMap<(String, String), BTreeSet<Change>>>,
    cache: Arc<ClusterCache>,
    statuses: Arc<StatusCache>,
    trigger: ReconcileTrigger,
}

/// What changed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// An object that the resource owns.
    Object {
        source: Source,
        namespace: String,
        name: String,
    },
    /// The resource itself.
    Resource { uid: String, version: String },
}

/// A reconciliation, until it is dropped.
pub(crate) struct Running<'a> {
    all: &'a InProgress,
    resource: (String, String),
}

impl InProgress {
    pub(crate) fn new(
        cache: Arc<ClusterCache>,
        statuses: Arc<StatusCache>,
        trigger: ReconcileTrigger,
    ) -> Self {
        Self {
            resources: Mutex::default(),
            cache,
            statuses,
            trigger,
        }
    }

    /// Starts a reconciliation.
    pub(crate) fn start(&self, namespace: &str, name: &str) -> Running<'_> {
        let resource = (namespace.to_owned(), name.to_owned());
        let mut resources = self.resources.lock();
        resources.insert(resource.clone(), BTreeSet::new());
        Running {
            all: self,
            resource,
        }
    }

    /// Whether a change is a reason to reconcile its resource now. It is not if the operator made the change,
    /// and not yet if the resource is being reconciled.
    pub(crate) fn is_due(&self, resource: &(String, String), change: Change) -> bool {
        if let Some(changes) = self.resources.lock().get_mut(resource) {
            if changes.len() <= MAX_CHANGES {
                changes.insert(change);
            }
            return false;
        }
        !self.is_own(&change)
    }

    /// Whether the operator made a change.
    fn is_own(&self, change: &Change) -> bool {
        match change {
            Change::Object {
                source,
                namespace,
                name,
            } => {
                let objects = source.objects(&self.cache);
                objects.is_some_and(|objects| objects.is_as_written(namespace, name))
            }
            Change::Resource { uid, version } => self.statuses.take_delivered(uid, version),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let changes = self.all.resources.lock().remove(&self.resource);
        let changes = changes.unwrap_or_default();
        // All of them are checked, because a status that was delivered is forgotten.
        let others = changes.iter().filter(|change| !self.all.is_own(change));
        if others.count() > 0 || changes.len() > MAX_CHANGES {
            let (namespace, name) = &self.resource;
            self.all.trigger.request(namespace, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::BoxStream;
    use futures::{FutureExt, StreamExt};
    use kube::api::DynamicObject;
    use kube::runtime::watcher::Event;
    use llsd_render::objects::Kind;
    use serde_json::json;

    use super::super::ResourceRef;
    use super::*;

    struct Fixture {
        all: InProgress,
        triggered: BoxStream<'static, ResourceRef>,
    }

    impl Fixture {
        fn new() -> Self {
            let (trigger, triggered) = ReconcileTrigger::new();
            let cache = Arc::new(ClusterCache::new([Kind::Service]));
            Self {
                all: InProgress::new(cache, Arc::default(), trigger),
                triggered: triggered.boxed(),
            }
        }

        fn deliver(&self, version: u32) -> bool {
            let service = self.all.cache.of(Kind::Service).unwrap();
            let change = service.observe(Event::Apply(object(version)));
            assert_eq!(change.len(), 1);
            self.all.is_due(&resource(), service_change("a"))
        }

        fn write(&self, version: u32) {
            self.all.cache.record(Kind::Service, object(version));
        }

        fn is_triggered(&mut self) -> bool {
            self.triggered.next().now_or_never().is_some()
        }
    }

    fn resource() -> (String, String) {
        ("ns".to_owned(), "a".to_owned())
    }

    fn service_change(name: &str) -> Change {
        Change::Object {
            source: Source::Child(Kind::Service),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    fn object(version: u32) -> DynamicObject {
        let object = json!({
            "metadata": {"namespace": "ns", "name": "a", "resourceVersion": version.to_string()},
            "spec": {"version": version},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_write_that_is_delivered_before_it_is_answered_is_no_change() {
        let mut fixture = Fixture::new();
        let running = fixture.all.start("ns", "a");
        assert!(!fixture.deliver(5));
        fixture.write(5);
        drop(running);
        assert!(!fixture.is_triggered());
    }

    #[test]
    fn a_change_by_others_waits_for_the_end_of_the_reconciliation() {
        let mut fixture = Fixture::new();
        let running = fixture.all.start("ns", "a");
        assert!(!fixture.deliver(5));
        fixture.write(5);
        assert!(!fixture.deliver(6), "someone changes what we wrote");
        drop(running);
        assert!(fixture.is_triggered());
        assert!(!fixture.is_triggered(), "once");
        assert!(fixture.deliver(7), "nothing is in progress");
    }

    #[test]
    fn a_resource_that_changes_very_often_is_reconciled_again() {
        let mut fixture = Fixture::new();
        let running = fixture.all.start("ns", "a");
        for number in 0..1000 {
            let change = Change::Resource {
                uid: "u".to_owned(),
                version: number.to_string(),
            };
            assert!(!fixture.all.is_due(&resource(), change));
        }
        let held = fixture.all.resources.lock()[&resource()].len();
        assert_eq!(held, MAX_CHANGES + 1);
        drop(running);
        assert!(fixture.is_triggered());
    }
}

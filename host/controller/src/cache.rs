//! The known state of the cluster, available without a request.
//!
//! One watch per kind fills one [`ObjectCache`] per kind. A reconciliation reads the caches and makes
//! no request. Secrets and ConfigMaps are watched as metadata only; [`ContentCache`] reads their
//! content when a resource needs it and its resource version changed. Every change triggers the
//! reconciliation of the resources that depend on the object.
//!
//! This folder imports nothing from the rest of the crate.

mod backoff;
mod content_cache;
mod env_conversion;
mod in_progress;
mod object_cache;
mod object_lookup;
mod pace;
mod packed;
mod parsed_bases;
mod pod_state;
mod projection;
mod received_object;
mod reconcile_queue;
mod references;
mod resource_store;
mod scope;
mod status_cache;
mod tenant_cache;
mod trigger;
mod trust_bundle;
mod upstream;
mod watched_resource;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use llsd_api::labels;
use llsd_render::objects::Kind;

pub(crate) use backoff::Backoff;
pub(crate) use content_cache::{ConfigMapData, ContentCache, ContentError, Fingerprint};
pub(crate) use env_conversion::{ConvertedType, converted_type};
pub(crate) use in_progress::{Change, InProgress};
pub(crate) use object_cache::{ObjectCache, version};
pub use object_lookup::ObjectLookup;
pub(crate) use pace::Pace;
pub(crate) use packed::{Packed, Packer};
pub(crate) use pod_state::{failing_probe, pod_problem};
pub(crate) use projection::{is_metadata_only, mounted_config_maps};
pub(crate) use received_object::ReceivedObject;
pub(crate) use reconcile_queue::{Priority, ReconcileQueue};
pub(crate) use references::{References, Referent};
pub(crate) use resource_store::{ResourceChange, ResourceStore, ResourceWriter};
pub use scope::Scope;
pub(crate) use status_cache::StatusCache;
pub(crate) use trigger::{ReconcileTrigger, ResourceRef};
pub(crate) use trust_bundle::{PLATFORM_BUNDLE, bundle_namespace};
pub(crate) use upstream::{UpstreamRunning, is_written_by_upstream, uptime};
pub(crate) use watched_resource::WatchedResource;
pub(crate) use watches::{PAGE_SIZE, Watches};

/// One object cache for each watched kind.
pub(crate) struct ClusterCache {
    children: BTreeMap<Kind, ObjectCache>,
    pub(crate) pods: ObjectCache,
    pub(crate) replica_sets: ObjectCache,
    /// The metadata of the recorded resolutions.
    pub(crate) revisions: ObjectCache,
    leases: ObjectCache,
}

impl ClusterCache {
    /// Creates an empty cache for each of the kinds, which the API server must serve.
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self {
            children: kinds
                .into_iter()
                .map(|kind| (kind, ObjectCache::by_resource()))
                .collect(),
            pods: ObjectCache::by_resource(),
            replica_sets: ObjectCache::by_resource(),
            // Only those that take part in rollouts are searched.
            revisions: ObjectCache::grouped_by(|head| {
                head.annotations()
                    .contains_key(labels::ROLLOUT)
                    .then_some(labels::ROLLOUT)
            }),
            leases: ObjectCache::by_resource(),
        }
    }

    /// The cache of a child kind; `None` if the kind is not watched.
    pub(crate) fn of(&self, kind: Kind) -> Option<&ObjectCache> {
        self.children.get(&kind)
    }

    /// The newest known version of one child object.
    pub(crate) fn child(&self, kind: Kind, namespace: &str, name: &str) -> Option<DynamicObject> {
        self.of(kind)?.get(namespace, name)
    }

    /// Whether a child object exists.
    pub(crate) fn has_child(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.of(kind)
            .is_some_and(|objects| objects.contains(namespace, name))
    }

    /// Stores the API server's response to one of our own writes.
    pub(crate) fn record(&self, kind: Kind, written: DynamicObject) {
        if let Some(objects) = self.of(kind) {
            objects.record(projection::child(kind, written));
        }
    }

    /// Stores the API server's response to a write of a recorded resolution.
    pub(crate) fn record_revision(&self, written: ObjectMeta) {
        self.revisions.record(projection::revision(written));
    }

    /// The llama-stack-k8s-operator, if it holds its leader Lease at the [`uptime`] `now`.
    pub(crate) fn running_upstream(&self, now: Duration) -> Option<UpstreamRunning> {
        let running = |lease: DynamicObject| UpstreamRunning::from_lease(&lease, now);
        self.leases.select(running).into_iter().next()
    }

    /// Waits until every cache has received its first list.
    pub(crate) async fn complete(&self) {
        join_all(self.caches().map(ObjectCache::complete)).await;
    }

    /// Whether every cache has received its first list.
    pub(crate) fn is_complete(&self) -> bool {
        self.caches().all(ObjectCache::is_complete)
    }

    /// The bytes of all objects.
    pub(crate) fn bytes(&self) -> usize {
        self.caches().map(ObjectCache::bytes).sum()
    }

    /// A cache without child kinds that has received its first lists.
    #[cfg(test)]
    pub(crate) fn completed() -> Self {
        use kube::runtime::watcher::Event;
        let cache = Self::new([]);
        for objects in cache.caches() {
            objects.observe(Event::Init);
            objects.observe(Event::InitDone);
        }
        cache
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.children.keys().copied()
    }

    fn caches(&self) -> impl Iterator<Item = &ObjectCache> {
        self.children.values().chain([
            &self.pods,
            &self.replica_sets,
            &self.revisions,
            &self.leases,
        ])
    }
}

//! What the operator knows of the cluster without asking.
//!
//! One watch a kind feeds one cache a kind; a pass reads the caches and makes no request. Secrets and
//! ConfigMaps are watched as metadata only: their content is read when a resource needs it and its
//! version moved. Every change wakes the resources that it concerns.

pub(crate) mod cache;
mod first_operator;
mod follow;
mod seen;
mod slim;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use kube::api::DynamicObject;
use llsd_render::objects::Kind;

pub(crate) use cache::Cache;
pub(crate) use first_operator::FirstOperator;
pub(crate) use follow::{Followers, Wake, Woken};
pub use seen::Seen;
pub(crate) use slim::{mounted_config_maps, problem};

/// The caches.
pub(crate) struct View {
    children: BTreeMap<Kind, Cache>,
    pub(crate) pods: Cache,
    pub(crate) replica_sets: Cache,
    leases: Cache,
}

impl View {
    /// Empty caches for kinds that the API server serves.
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self {
            children: kinds
                .into_iter()
                .map(|kind| (kind, Cache::default()))
                .collect(),
            pods: Cache::default(),
            replica_sets: Cache::default(),
            leases: Cache::default(),
        }
    }

    /// The objects of a kind, if the API server serves it.
    pub(crate) fn of(&self, kind: Kind) -> Option<&Cache> {
        self.children.get(&kind)
    }

    /// The newest version of one object.
    pub(crate) fn child(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<DynamicObject>> {
        self.of(kind)?.get(namespace, name)
    }

    /// Takes what the API server answered to a write of ours.
    pub(crate) fn record(&self, kind: Kind, written: DynamicObject) {
        if let Some(cache) = self.of(kind) {
            cache.record(slim::child(kind, written));
        }
    }

    /// The first operator, if it runs beside us.
    pub(crate) fn first_operator(&self, now: Timestamp) -> Option<FirstOperator> {
        let leases = self.leases.all();
        leases
            .iter()
            .find_map(|lease| FirstOperator::of(lease, now))
    }

    /// Waits until every cache has its first list.
    pub(crate) async fn complete(&self) {
        join_all(self.caches().map(Cache::complete)).await;
    }

    /// Whether every cache has its first list.
    pub(crate) fn is_complete(&self) -> bool {
        self.caches().all(Cache::is_complete)
    }

    fn caches(&self) -> impl Iterator<Item = &Cache> {
        self.children
            .values()
            .chain([&self.pods, &self.replica_sets, &self.leases])
    }
}

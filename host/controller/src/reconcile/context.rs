//! What all reconciliations of one operator share.

use std::sync::Arc;

use kube::Client;
use llsd_render::objects::{Cluster, Owner};

use super::revisions::Revisions;
use super::rollouts::Rollouts;
use super::tags::Tags;
use crate::active_plugins::ActivePlugins;
use crate::cache::{
    Backoff, ClusterCache, ContentCache, InProgress, Pace, ReconcileQueue, ReconcileTrigger,
    References, Scope, StatusCache,
};
use crate::images::Fetcher;
use crate::process::{Events, Health, Metrics, WritePace};
use crate::servers::ServerPoller;
use crate::settings::CurrentSettings;

/// What all reconciliations of one operator share.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// Slows the writes of the client while someone else changes resources.
    pub(crate) write_pace: WritePace,
    /// The namespaces that the operator serves.
    pub(crate) scope: Scope,
    /// Schema adapters and provider packs.
    pub(crate) plugins: Arc<ActivePlugins>,
    /// Reads images in the background.
    pub(crate) images: Fetcher,
    /// The settings in the operator's own ConfigMap.
    pub(crate) settings: Arc<CurrentSettings>,
    /// What each resource refers to.
    pub(crate) references: Arc<References>,
    /// The optional APIs of the cluster.
    pub(crate) cluster: Cluster,
    /// The watched objects.
    pub(crate) cache: Arc<ClusterCache>,
    /// The content of referenced Secrets and ConfigMaps.
    pub(crate) contents: ContentCache,
    /// The recorded resolutions.
    pub(crate) revisions: Revisions,
    /// Who waits for updates.
    pub(crate) rollouts: Rollouts,
    /// What the tags in use point to.
    pub(crate) tags: Tags,
    /// The last status of each resource.
    pub(crate) statuses: Arc<StatusCache>,
    /// The resources that are being reconciled.
    pub(crate) in_progress: Arc<InProgress>,
    pub(crate) events: Arc<Events>,
    pub(crate) backoff: Backoff,
    /// Limits how often one resource is reconciled.
    pub(crate) pace: Pace,
    /// Limits concurrent reconciliations.
    pub(crate) queue: ReconcileQueue,
    /// Polls running servers.
    pub(crate) servers: ServerPoller,
    pub(crate) trigger: ReconcileTrigger,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// To whom faults of plugins are attributed: the namespace, or the resource if there is only one
    /// namespace.
    pub(crate) fn author<'a>(&self, owner: &'a Owner) -> &'a str {
        match self.scope {
            Scope::Cluster => &owner.namespace,
            Scope::Namespace(_) => &owner.name,
        }
    }

    /// Drops everything that is stored for a deleted resource.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.references.forget(namespace, name);
        self.backoff.reset(namespace, name);
        self.pace.forget(namespace, name);
        self.queue.forget(namespace, name);
        self.servers.forget(namespace, name);
        self.metrics.set_release_mismatch(namespace, name, false);
        let resource = (namespace.to_owned(), name.to_owned());
        self.rollouts.forget(&resource);
        self.tags.forget(&resource);
        self.revisions.forget_deleted(namespace, name);
        self.contents.forget_deleted();
    }
}

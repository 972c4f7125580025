//! The watches that fill the caches and trigger the affected resources.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use llsd_api::{KIND, labels};
use llsd_render::objects::Kind;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{
    Change, ClusterCache, InProgress, ObjectCache, ReceivedObject, ReconcileTrigger, References,
    Referent, Scope, pod_state, projection, upstream,
};

/// Objects in one response of a list. A response is held as text before it is parsed, and one object has up
/// to 1.5 MiB.
pub(crate) const PAGE_SIZE: u32 = 50;

/// Starts the watches.
pub(crate) struct Watches {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) cache: Arc<ClusterCache>,
    pub(crate) references: Arc<References>,
    pub(crate) in_progress: Arc<InProgress>,
    pub(crate) trigger: ReconcileTrigger,
}

impl Watches {
    /// Starts every watch. Dropping the set stops them.
    pub(crate) fn start(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let children = watcher::Config::default().labels(&format!(
            "{}={}",
            labels::MANAGED_BY,
            labels::MANAGER
        ));
        let pods = watcher::Config::default().labels(&format!(
            "{} in ({},{})",
            labels::APP,
            labels::PRODUCT,
            labels::OGX_APP
        ));
        self.watch(
            &mut tasks,
            self.scope
                .api::<PartialObjectMeta<ControllerRevision>>(&self.client),
            children.clone(),
            Source::Revisions,
            |head| projection::revision(head.metadata),
        );
        for kind in self.cache.kinds() {
            match kind {
                Kind::ConfigMap => self.watch(
                    &mut tasks,
                    self.scope.api::<PartialObjectMeta<ConfigMap>>(&self.client),
                    watcher::Config::default(),
                    Source::Child(kind),
                    projection::partial,
                ),
                Kind::Secret => self.watch(
                    &mut tasks,
                    self.scope.api::<PartialObjectMeta<Secret>>(&self.client),
                    watcher::Config::default(),
                    Source::Child(kind),
                    projection::partial,
                ),
                _ => self.watch(
                    &mut tasks,
                    self.scope.dynamic_api(&self.client, &kind.resource()),
                    children.clone(),
                    Source::Child(kind),
                    move |ReceivedObject(object)| projection::child(kind, object),
                ),
            }
        }
        self.watch(
            &mut tasks,
            self.scope.api::<Pod>(&self.client),
            pods.clone(),
            Source::Pods,
            pod_state::pod,
        );
        self.watch(
            &mut tasks,
            self.scope.api::<ReplicaSet>(&self.client),
            pods,
            Source::ReplicaSets,
            projection::replica_set,
        );
        self.watch(
            &mut tasks,
            Api::<Lease>::all(self.client.clone()),
            watcher::Config::default().fields(&format!("metadata.name={}", upstream::LEASE)),
            Source::Leases,
            upstream::lease,
        );
        tasks
    }

    fn watch<K>(
        &self,
        tasks: &mut JoinSet<()>,
        api: Api<K>,
        config: watcher::Config,
        source: Source,
        project: impl Fn(K) -> DynamicObject + Send + 'static,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (cache, references, in_progress, trigger) = (
            self.cache.clone(),
            self.references.clone(),
            self.in_progress.clone(),
            self.trigger.clone(),
        );
        tasks.spawn(async move {
            let mut events =
                std::pin::pin!(watcher(api, config.page_size(PAGE_SIZE)).default_backoff());
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        tracing::warn!(?source, %error, "watch failed, restarting it");
                        continue;
                    }
                };
                let Some(objects) = source.objects(&cache) else {
                    return;
                };
                for changed in objects.observe(map(event, &project)) {
                    for (namespace, name) in source.referrers(&changed, &references) {
                        trigger.request(&namespace, &name);
                    }
                    let Some(resource) = source.resource(&changed) else {
                        continue;
                    };
                    let change = Change::Object {
                        source,
                        namespace: resource.0.clone(),
                        name: changed.name_any(),
                    };
                    if in_progress.is_due(&resource, change) {
                        trigger.request(&resource.0, &resource.1);
                    }
                }
            }
        });
    }
}

/// The watch that an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Child(Kind),
    Pods,
    ReplicaSets,
    Revisions,
    Leases,
}

impl Source {
    /// The objects that the watch delivers.
    pub(super) fn objects(self, cache: &ClusterCache) -> Option<&ObjectCache> {
        match self {
            Self::Child(kind) => cache.of(kind),
            Self::Pods => Some(&cache.pods),
            Self::ReplicaSets => Some(&cache.replica_sets),
            Self::Revisions => Some(&cache.revisions),
            Self::Leases => Some(&cache.leases),
        }
    }

    /// Namespaces and names of the resources that refer to an object.
    fn referrers(self, object: &DynamicObject, references: &References) -> Vec<(String, String)> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let referent = match self {
            Self::Child(Kind::ConfigMap) => Referent::ConfigMap { namespace, name },
            Self::Child(Kind::Secret) => Referent::Secret { namespace, name },
            _ => return Vec::new(),
        };
        references.referrers(&referent)
    }

    /// Namespace and name of the resource that an object belongs to.
    fn resource(self, object: &DynamicObject) -> Option<(String, String)> {
        let name = match self {
            // The resource of the same name may adopt a Deployment without an owner.
            Self::Child(Kind::Deployment) => Some(object.name_any()),
            Self::Child(_) | Self::Revisions => owner(object),
            Self::Pods | Self::ReplicaSets => object.labels().get(labels::INSTANCE).cloned(),
            // Resources that wait for the Lease to expire are requeued.
            Self::Leases => None,
        };
        Some((object.namespace().unwrap_or_default(), name?))
    }
}

/// The name of the resource that owns an object.
fn owner(object: &DynamicObject) -> Option<String> {
    let mut owners = object.owner_references().iter();
    Some(owners.find(|owner| owner.kind == KIND)?.name.clone())
}

fn map<K>(event: Event<K>, project: impl Fn(K) -> DynamicObject) -> Event<DynamicObject> {
    match event {
        Event::Apply(object) => Event::Apply(project(object)),
        Event::Delete(object) => Event::Delete(project(object)),
        Event::InitApply(object) => Event::InitApply(project(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

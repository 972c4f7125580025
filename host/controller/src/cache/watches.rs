//! The watches behind the caches, and whom a change wakes.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DynamicObject};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use llsd_api::{Distribution, KIND, labels};
use llsd_render::objects::Kind;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Cache, View, first_operator, slim};
use crate::operator::Scope;
use crate::references::{References, Referent};

/// A resource, to be looked at.
pub(crate) type Woken = ObjectRef<DeserializeGuard<Distribution>>;

/// Asks for passes over resources.
#[derive(Clone)]
pub(crate) struct Wake(mpsc::UnboundedSender<Woken>);

impl Wake {
    /// A way to ask, and the stream of what was asked for.
    pub(crate) fn new() -> (Self, impl Stream<Item = Woken> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stream = futures::stream::unfold(receiver, async |mut receiver| {
            Some((receiver.recv().await?, receiver))
        });
        (Self(sender), stream)
    }

    /// Asks for a pass. After the end of the operator nobody listens, and nobody needs to.
    pub(crate) fn resource(&self, namespace: &str, name: &str) {
        let _ = self.0.send(ObjectRef::new(name).within(namespace));
    }
}

/// What the watches need.
pub(crate) struct Followers {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) view: Arc<View>,
    pub(crate) references: Arc<References>,
    pub(crate) wake: Wake,
}

impl Followers {
    /// Starts every watch. They end when the set is dropped.
    pub(crate) fn start(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let children = watcher::Config::default().labels(&format!(
            "{}={}",
            labels::MANAGED_BY,
            labels::MANAGER
        ));
        let pods =
            watcher::Config::default().labels(&format!("{}={}", labels::APP, labels::PRODUCT));
        let kinds: Vec<Kind> = self.view.children.keys().copied().collect();
        for kind in kinds {
            match kind {
                Kind::ConfigMap => self.follow(
                    &mut tasks,
                    self.scope.api::<PartialObjectMeta<ConfigMap>>(&self.client),
                    watcher::Config::default(),
                    Source::Child(kind),
                    slim::partial,
                ),
                Kind::Secret => self.follow(
                    &mut tasks,
                    self.scope.api::<PartialObjectMeta<Secret>>(&self.client),
                    watcher::Config::default(),
                    Source::Child(kind),
                    slim::partial,
                ),
                _ => self.follow(
                    &mut tasks,
                    self.scope.dynamic(&self.client, &kind.resource()),
                    children.clone(),
                    Source::Child(kind),
                    move |object| slim::child(kind, object),
                ),
            }
        }
        self.follow(
            &mut tasks,
            self.scope.api::<Pod>(&self.client),
            pods.clone(),
            Source::Pods,
            slim::pod,
        );
        self.follow(
            &mut tasks,
            self.scope.api::<ReplicaSet>(&self.client),
            pods,
            Source::ReplicaSets,
            slim::replica_set,
        );
        self.follow(
            &mut tasks,
            self.scope.api::<Lease>(&self.client),
            watcher::Config::default().fields(&format!("metadata.name={}", first_operator::LEASE)),
            Source::Leases,
            first_operator::lease,
        );
        tasks
    }

    fn follow<K>(
        &self,
        tasks: &mut JoinSet<()>,
        api: Api<K>,
        config: watcher::Config,
        source: Source,
        slim: impl Fn(K) -> DynamicObject + Send + 'static,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (view, references, wake) = (
            self.view.clone(),
            self.references.clone(),
            self.wake.clone(),
        );
        tasks.spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        tracing::warn!(?source, %error, "the watch was cut; it starts again");
                        continue;
                    }
                };
                let Some(cache) = source.cache(&view) else {
                    return;
                };
                for changed in cache.observe(map(event, &slim)) {
                    for (namespace, name) in source.concerned(&changed, &references) {
                        wake.resource(&namespace, &name);
                    }
                }
            }
        });
    }
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Child(Kind),
    Pods,
    ReplicaSets,
    Leases,
}

impl Source {
    fn cache(self, view: &View) -> Option<&Cache> {
        match self {
            Self::Child(kind) => view.of(kind),
            Self::Pods => Some(&view.pods),
            Self::ReplicaSets => Some(&view.replica_sets),
            Self::Leases => Some(&view.leases),
        }
    }

    /// Namespaces and names of the resources that an object concerns.
    fn concerned(self, object: &DynamicObject, references: &References) -> Vec<(String, String)> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let referent = match self {
            Self::Child(Kind::ConfigMap) => Some(Referent::ConfigMap {
                namespace: namespace.clone(),
                name,
            }),
            Self::Child(Kind::Secret) => Some(Referent::Secret {
                namespace: namespace.clone(),
                name,
            }),
            _ => None,
        };
        let mut resources = referent
            .map(|referent| references.referrers(&referent))
            .unwrap_or_default();
        let own = match self {
            // The resource of the same name may want to take a Deployment that nobody owns.
            Self::Child(Kind::Deployment) => Some(object.name_any()),
            Self::Child(_) => owner(object),
            Self::Pods | Self::ReplicaSets => object.labels().get(labels::INSTANCE).cloned(),
            // Resources that wait for its end look again by themselves.
            Self::Leases => None,
        };
        resources.extend(own.map(|name| (namespace, name)));
        resources
    }
}

/// The name of the resource that an object belongs to.
fn owner(object: &DynamicObject) -> Option<String> {
    let mut owners = object.owner_references().iter();
    Some(owners.find(|owner| owner.kind == KIND)?.name.clone())
}

fn map<K>(event: Event<K>, slim: impl Fn(K) -> DynamicObject) -> Event<DynamicObject> {
    match event {
        Event::Apply(object) => Event::Apply(slim(object)),
        Event::Delete(object) => Event::Delete(slim(object)),
        Event::InitApply(object) => Event::InitApply(slim(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

impl Scope {
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(served) => served == namespace,
        }
    }

    pub(crate) fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::Cluster => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }

    fn dynamic(&self, client: &Client, resource: &kube::core::ApiResource) -> Api<DynamicObject> {
        match self {
            Self::Cluster => Api::all_with(client.clone(), resource),
            Self::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        }
    }
}

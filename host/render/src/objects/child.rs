//! One object of a resource: what kind it is, how it is written, and whether the pods need it.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::DESIRED_DIGEST;
use crate::digest;

/// A kind of object that a resource may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Files: the generated one, certificates.
    ConfigMap,
    /// What a secret value was taken apart into.
    Secret,
    /// The identity of the pods.
    ServiceAccount,
    /// What that identity may do.
    RoleBinding,
    /// The volume.
    PersistentVolumeClaim,
    /// The pods.
    Deployment,
    /// The address inside the cluster.
    Service,
    /// Who may connect.
    NetworkPolicy,
    /// The number of pods by load.
    HorizontalPodAutoscaler,
    /// How many pods may be away at once.
    PodDisruptionBudget,
    /// The address outside the cluster.
    Ingress,
    /// The address outside the cluster, on OpenShift.
    Route,
}

impl Kind {
    /// How the API server serves the kind.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::HorizontalPodAutoscaler => ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            Self::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Self::Ingress => ApiResource::erase::<Ingress>(&()),
            Self::Route => ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk("route.openshift.io", "v1", "Route"),
                "routes",
            ),
        }
    }

    /// Whether pods of an older template may still need an object of this kind.
    pub fn is_read_by_pods(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Secret)
    }
}

/// When an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// If there is none: the cluster refuses changes, or it never changes.
    Once,
    /// Whenever it is not what it should be.
    Converge,
}

/// What happens when an object cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The resource stops changing: the server would not work without it.
    Essential,
    /// The rest goes on, and the status says so.
    Optional,
}

/// An object that should exist.
#[derive(Clone, PartialEq)]
pub struct Child {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// When it is written.
    pub write: Write,
    /// What happens when it cannot be.
    pub need: Need,
    /// The whole object, with its digest.
    pub object: Value,
}

/// An object that should no longer exist, if it is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Objects can hold secret values, which no message may show.
impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("write", &self.write)
            .field("need", &self.need)
            .finish_non_exhaustive()
    }
}

impl Child {
    /// An object with its digest on it.
    pub(super) fn new<K>(kind: Kind, write: Write, need: Need, object: &K) -> Self
    where
        K: Serialize + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        Self::from_json(
            kind,
            write,
            need,
            name,
            serde_json::to_value(object).unwrap_or_default(),
        )
    }

    /// The same for a kind that has no type.
    pub(super) fn from_json(
        kind: Kind,
        write: Write,
        need: Need,
        name: String,
        mut object: Value,
    ) -> Self {
        object["metadata"]["labels"][DESIRED_DIGEST] = json!(digest_of(kind, &object));
        Self {
            kind,
            name,
            write,
            need,
            object,
        }
    }
}

/// Of a Secret only what is no secret: a plain digest of a short value gives the value away.
fn digest_of(kind: Kind, object: &Value) -> String {
    if kind != Kind::Secret {
        return digest::label(&object.to_string());
    }
    let mut shown = object.clone();
    let keys: Vec<_> = object["data"]
        .as_object()
        .map(|data| data.keys().cloned().collect())
        .unwrap_or_default();
    shown["data"] = json!(keys);
    digest::label(&shown.to_string())
}

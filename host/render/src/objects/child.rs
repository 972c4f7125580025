//! A desired object of a resource: its kind, when it is written, and whether the server needs it.

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
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Cluster, DESIRED_DIGEST, gateway, pod_monitor};
use crate::digest;

/// Declares [`Kind`] and [`Kind::ALL`] from one list.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// A kind of child object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    /// The generated server configuration, or the CA bundle.
    ConfigMap,
    /// Values extracted from other secret values.
    Secret,
    /// The identity of the pods.
    ServiceAccount,
    /// The permissions of the ServiceAccount.
    RoleBinding,
    /// The volume for the server's data.
    PersistentVolumeClaim,
    /// The pods.
    Deployment,
    /// Access from inside the cluster.
    Service,
    /// Restricts connections to the pods.
    NetworkPolicy,
    /// Scales the pods with the load.
    HorizontalPodAutoscaler,
    /// Limits how many pods are evicted at once.
    PodDisruptionBudget,
    /// Access from outside the cluster.
    Ingress,
    /// Access from outside the cluster, on OpenShift.
    Route,
    /// Access from outside the cluster, through a Gateway.
    HTTPRoute,
    /// The same for a server with TLS, whose connections are passed through.
    TLSRoute,
    /// How a Gateway connects to a server with TLS.
    BackendTLSPolicy,
    /// How Prometheus finds the metrics of the pods.
    PodMonitor,
}

impl Kind {
    /// Whether the cluster serves the kind and the operator creates objects of it.
    pub fn is_served(self, cluster: &Cluster) -> bool {
        match self {
            Self::Route => cluster.has_routes,
            Self::PodMonitor => cluster.has_pod_monitors,
            Self::RoleBinding => cluster.has_any_uid,
            Self::HTTPRoute | Self::TLSRoute | Self::BackendTLSPolicy => {
                gateway::is_served(self, cluster)
            }
            _ => true,
        }
    }

    /// The API resource of the kind.
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
            Self::HTTPRoute => gateway::resource("HTTPRoute", "httproutes"),
            Self::TLSRoute => gateway::resource("TLSRoute", "tlsroutes"),
            Self::BackendTLSPolicy => gateway::resource("BackendTLSPolicy", "backendtlspolicies"),
            Self::PodMonitor => pod_monitor::resource(),
        }
    }

    /// Whether an object of this kind has the address of the server outside the cluster.
    pub fn has_address(self) -> bool {
        matches!(
            self,
            Self::Ingress | Self::Route | Self::HTTPRoute | Self::TLSRoute
        )
    }

    /// Whether pods of an older template may still read an object of this kind.
    pub fn is_read_by_pods(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Secret)
    }
}

/// When an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Only if it does not exist, because it is immutable or never changes.
    Once,
    /// If it does not exist. Later only its requested storage grows; everything else of a volume claim
    /// is immutable.
    Grow,
    /// Whenever it differs from the desired state.
    Converge,
}

/// What happens if writing an object fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Need {
    /// The pass stops, because the server would not work, or would accept connections that it must
    /// not accept.
    Essential,
    /// The pass continues, and the status reports the failure.
    Optional,
}

/// A desired object.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// When it is written.
    pub write: Write,
    /// What happens if writing it fails.
    pub need: Need,
    /// The complete object, with the label [`DESIRED_DIGEST`].
    pub object: Value,
}

/// An object that must be deleted, if the resource owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Omits the object, which can contain secret values.
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
    /// Adds the label [`DESIRED_DIGEST`] to an object.
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

    /// The same for a kind without a Rust type.
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

/// The digest of an object. For a Secret it covers the keys but not the values, because a plain digest
/// of a short value would reveal it.
fn digest_of(kind: Kind, object: &Value) -> String {
    if kind != Kind::Secret {
        return digest::label(&object.to_string());
    }
    let mut without_values = object.clone();
    let keys: Vec<_> = object["data"]
        .as_object()
        .map(|data| data.keys().cloned().collect())
        .unwrap_or_default();
    without_values["data"] = json!(keys);
    digest::label(&without_values.to_string())
}

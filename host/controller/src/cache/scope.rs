//! The namespaces that an operator watches.

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::core::ApiResource;
use kube::{Client, Resource};

use super::ReceivedObject;

/// The namespaces that an operator watches and serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// A single namespace.
    Namespace(String),
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

    pub(crate) fn dynamic_api(
        &self,
        client: &Client,
        resource: &ApiResource,
    ) -> Api<ReceivedObject> {
        match self {
            Self::Cluster => Api::all_with(client.clone(), resource),
            Self::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        }
    }
}

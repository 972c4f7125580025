//! Discovers the optional APIs of the cluster, once, when the operator starts.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use kube::api::Api;
use llsd_render::objects::{ANY_UID, Cluster, Kind};

/// The file in which a pod finds its own namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Delay between attempts.
const RETRY: Duration = Duration::from_secs(2);

/// Repeats [`discover_once`] until it succeeds. Guessing would create wrong objects.
pub(crate) async fn discover(client: &Client) -> Cluster {
    loop {
        match discover_once(client).await {
            Ok(cluster) => return cluster,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "failed to discover the APIs of the cluster, retrying"
                );
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Discovers the optional APIs of the cluster.
pub(crate) async fn discover_once(client: &Client) -> Result<Cluster, kube::Error> {
    let groups = client.list_api_groups().await?;
    let routes = Kind::Route.resource().group;
    let has_routes = groups.groups.iter().any(|group| group.name == routes);
    let has_any_uid = has_routes
        && Api::<ClusterRole>::all(client.clone())
            .get_metadata_opt(ANY_UID)
            .await?
            .is_some();
    Ok(Cluster {
        has_routes,
        has_any_uid,
        operator_namespace: operator_namespace(),
    })
}

/// The namespace of the operator's own pod; `None` outside a cluster.
fn operator_namespace() -> Option<String> {
    std::fs::read_to_string(NAMESPACE_FILE)
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

//! What the cluster offers that objects depend on. It is asked once, when the operator starts.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use kube::api::Api;
use llsd_render::objects::{ANY_UID, Cluster, Kind};

/// Where a pod finds the namespace that it runs in.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Until an API server that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(2);

/// Asks the API server until it answers. A guess would make the wrong objects.
pub(crate) async fn discover(client: &Client) -> Cluster {
    loop {
        match ask(client).await {
            Ok(cluster) => return cluster,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the API server does not say which APIs it has");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Asks the API server once.
pub(crate) async fn ask(client: &Client) -> Result<Cluster, kube::Error> {
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

/// Absent outside a cluster, where no policy can let the operator in.
fn operator_namespace() -> Option<String> {
    std::fs::read_to_string(NAMESPACE_FILE)
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

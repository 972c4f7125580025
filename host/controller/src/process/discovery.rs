//! Discovers the optional APIs of the cluster, once, when the operator starts.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use kube::api::{Api, ApiResource, ListParams};
use llsd_render::objects::{ANY_UID, Cluster, GatewayApi, Kind};

use crate::cache::Scope;

/// The file in which a pod finds its own namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Delay between attempts.
const RETRY: Duration = Duration::from_secs(2);

/// Repeats the discovery until it succeeds, because guessing would create wrong objects. Leaves out the
/// APIs that the operator may not use: a watch of them would never deliver its first list.
pub(crate) async fn discover(client: &Client, scope: &Scope) -> Cluster {
    loop {
        let permitted = async {
            let cluster = discover_once(client).await?;
            without_forbidden(client, scope, cluster).await
        };
        match permitted.await {
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
    let has_version = |wanted: &ApiResource| {
        groups.groups.iter().any(|group| {
            let mut versions = group.versions.iter();
            group.name == wanted.group && versions.any(|one| one.version == wanted.version)
        })
    };
    let has_pod_monitors = has_version(&Kind::PodMonitor.resource());
    let gateways = Kind::HTTPRoute.resource();
    let gateway_api = match has_version(&gateways) {
        true => gateway_api(client, &gateways.api_version).await?,
        false => GatewayApi::default(),
    };
    let role = Api::<ClusterRole>::all(client.clone());
    let has_any_uid = has_routes
        && unless_forbidden(role.get_metadata_opt(ANY_UID).await)?
            .flatten()
            .is_some();
    Ok(Cluster {
        has_routes,
        has_pod_monitors,
        gateway_api,
        has_any_uid,
        operator_namespace: operator_namespace(),
    })
}

/// The kinds of the Gateway API that the cluster serves. Older releases have fewer.
async fn gateway_api(client: &Client, version: &str) -> Result<GatewayApi, kube::Error> {
    let served = client.list_api_group_resources(version).await?.resources;
    let has = |kind: Kind| {
        let wanted = kind.resource().kind;
        served.iter().any(|one| one.kind == wanted)
    };
    Ok(GatewayApi {
        has_http_routes: has(Kind::HTTPRoute),
        has_tls_routes: has(Kind::TLSRoute),
        has_backend_tls: has(Kind::BackendTLSPolicy),
    })
}

async fn without_forbidden(
    client: &Client,
    scope: &Scope,
    cluster: Cluster,
) -> Result<Cluster, kube::Error> {
    let may_list = async |kind: Kind| {
        let api = scope.dynamic_api(client, &kind.resource());
        let listed = api.list_metadata(&ListParams::default().limit(1)).await;
        let may_list = unless_forbidden(listed)?.is_some();
        if !may_list {
            tracing::warn!(
                ?kind,
                "the roles of the operator do not include this API of the cluster, so it is not used; on OpenShift, install overlays/openshift or set openshift.enabled; for the Gateway API and the Prometheus operator, update the roles"
            );
        }
        Ok::<bool, kube::Error>(may_list)
    };
    let GatewayApi {
        has_http_routes,
        has_tls_routes,
        has_backend_tls,
    } = cluster.gateway_api;
    Ok(Cluster {
        gateway_api: GatewayApi {
            has_http_routes: has_http_routes && may_list(Kind::HTTPRoute).await?,
            has_tls_routes: has_tls_routes && may_list(Kind::TLSRoute).await?,
            has_backend_tls: has_backend_tls && may_list(Kind::BackendTLSPolicy).await?,
        },
        has_routes: cluster.has_routes && may_list(Kind::Route).await?,
        has_pod_monitors: cluster.has_pod_monitors && may_list(Kind::PodMonitor).await?,
        has_any_uid: cluster.has_any_uid && may_list(Kind::RoleBinding).await?,
        ..cluster
    })
}

/// `None` if the API server denied the request.
fn unless_forbidden<T>(response: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match response {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The namespace of the operator's own pod; `None` outside a cluster.
fn operator_namespace() -> Option<String> {
    std::fs::read_to_string(NAMESPACE_FILE)
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

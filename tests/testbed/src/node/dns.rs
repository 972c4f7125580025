//! The cluster DNS: CoreDNS as a pod of the node.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use super::network::Network;
use crate::wait::eventually;

pub(super) const IMAGE: &str = "llsd.test/coredns:1";

const NAMESPACE: &str = "kube-system";
const NAME: &str = "coredns";
const READY_WITHIN: Duration = Duration::from_secs(240);

/// Short times to live, because tests create and delete Services.
const COREFILE: &str = ".:53 {
  errors
  ready :8181
  kubernetes cluster.local in-addr.arpa {
    ttl 5
  }
  cache 5
}
";

/// Creates the DNS and waits until it is available.
pub(super) async fn install(admin: &Client, network: Network) -> Result<()> {
    for object in objects(network) {
        create(admin, object).await?;
    }
    let deployments = Api::<Deployment>::namespaced(admin.clone(), NAMESPACE);
    let is_available = |deployment: Option<&Deployment>| {
        deployment
            .and_then(|deployment| deployment.status.as_ref())
            .is_some_and(|status| status.available_replicas == Some(1))
    };
    eventually(&deployments, NAME, READY_WITHIN, "available", is_available)
        .await
        .context("the cluster DNS did not start")
        .map(drop)
}

async fn create(admin: &Client, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(admin.clone(), namespace, &resource),
        None => Api::all_with(admin.clone(), &resource),
    };
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("failed to create the {} of the cluster DNS", types.kind))?;
    Ok(())
}

fn objects(network: Network) -> Vec<Value> {
    let named = json!({"name": NAME, "namespace": NAMESPACE});
    let labels = json!({"k8s-app": "kube-dns"});
    let account = json!({"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE});
    let read = |groups: Value, resources: Value| json!({"apiGroups": groups, "resources": resources, "verbs": ["list", "watch"]});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                read(json!([""]), json!(["endpoints", "services", "pods", "namespaces"])),
                read(json!(["discovery.k8s.io"]), json!(["endpointslices"])),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [account],
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"Corefile": COREFILE}}),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "serviceAccountName": NAME,
                    // It must not ask itself.
                    "dnsPolicy": "Default",
                    "containers": [{
                        "name": NAME,
                        "image": IMAGE,
                        "args": ["-conf", "/etc/coredns/Corefile"],
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": NAME}}],
                }},
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE},
            "spec": {
                "clusterIP": network.dns(),
                "selector": labels,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        }),
    ]
}

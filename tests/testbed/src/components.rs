//! The command lines of the control plane's programs.
//!
//! Flags that differ from a production cluster have a comment. Paths are relative to the folder of
//! the control plane, which is the working directory of every program.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, PostParams};
use llsd_toolchain::module_folder;
use serde_json::json;

use crate::users;

/// The audit log: one line per request.
pub(crate) const AUDIT_FILE: &str = "audit.log";

/// What kwok does with nodes and pods: at once what a kubelet does after a while.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

/// The only node. kwok simulates its kubelet.
pub(crate) const NODE: &str = "simulated";

pub(crate) async fn create_node(admin: &Client) -> Result<()> {
    let capacity = json!({"cpu": "100000", "memory": "1000Ti", "pods": "100000"});
    let node = serde_json::from_value(json!({
        "metadata": {
            "name": NODE,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"},
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }))?;
    Api::<Node>::all(admin.clone())
        .create(&PostParams::default(), &node)
        .await?;
    Ok(())
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Logs every request that does not come from the control plane itself.
pub(crate) fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {"level": "None", "users": users::components()},
            {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*"]},
            {"level": "Metadata"},
        ],
    })
}

pub(crate) fn etcd_arguments(port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    vec![
        "--data-dir=etcd".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data is deleted after the test, so it need not survive a crash.
        "--unsafe-no-fsync".into(),
    ]
}

/// Where an API server listens, and the addresses of its Services.
pub(crate) struct ApiServer<'a> {
    pub(crate) address: &'a str,
    pub(crate) port: u16,
    pub(crate) etcd_port: u16,
    pub(crate) services: &'a str,
}

impl ApiServer<'_> {
    /// The arguments that do not depend on the kind of node.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self {
            address,
            port,
            etcd_port,
            services,
        } = self;
        let mut arguments = vec![
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            format!("--secure-port={port}"),
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            format!("--service-cluster-ip-range={services}"),
            format!("--audit-log-path={AUDIT_FILE}"),
        ];
        arguments.extend(COMMON_ARGUMENTS.iter().copied().map(String::from));
        arguments
    }
}

const COMMON_ARGUMENTS: &[&str] = &[
    "--tls-cert-file=server.crt",
    "--tls-private-key-file=server.key",
    "--client-ca-file=ca.crt",
    "--anonymous-auth=false",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--service-account-key-file=accounts.pub",
    "--service-account-signing-key-file=accounts.key",
    "--allow-privileged=true",
    // A loaded machine delays the heartbeat of the node; its pods must stay ready.
    "--disable-admission-plugins=TaintNodesByCondition",
    "--audit-policy-file=audit-policy.json",
    // Write the line of a request before its response is complete, so that tests can count.
    "--audit-log-mode=blocking",
    // Rotation would move lines that a test has not read yet.
    "--audit-log-maxsize=10000",
    "--max-requests-inflight=2000",
    "--max-mutating-requests-inflight=1000",
];

/// As on OpenShift: setting an owner reference needs permission to update the owner's finalizers.
const OWNER_REFERENCES: &str = "OwnerReferencesPermissionEnforcement";

/// Arguments of an API server whose node is simulated.
pub(crate) fn simulated_node_arguments() -> Vec<String> {
    vec![
        // No pod connects to the API server, and endpoints must not have a loopback address.
        "--endpoint-reconciler-type=none".into(),
        "--authorization-mode=RBAC".into(),
        format!("--enable-admission-plugins={OWNER_REFERENCES}"),
    ]
}

/// Arguments of an API server with a kubelet, whose permissions depend on the pods of its node.
pub(crate) fn real_node_arguments() -> Vec<String> {
    let mut arguments = [
        "--authorization-mode=Node,RBAC",
        "--kubelet-client-certificate=kubelet-client.crt",
        "--kubelet-client-key=kubelet-client.key",
        "--kubelet-certificate-authority=ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
    ]
    .map(String::from)
    .to_vec();
    arguments.push(format!(
        "--enable-admission-plugins=NodeRestriction,{OWNER_REFERENCES}"
    ));
    arguments
}

pub(crate) fn controller_manager_arguments() -> Vec<String> {
    [
        "--kubeconfig=kube-controller-manager.kubeconfig",
        "--service-account-private-key-file=accounts.key",
        "--root-ca-file=ca.crt",
        "--leader-elect=false",
        // As with TaintNodesByCondition: a late heartbeat must not evict pods.
        "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",
        "--secure-port=0",
        "--kube-api-qps=400",
        "--kube-api-burst=800",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
    ]
    .map(String::from)
    .into()
}

pub(crate) fn scheduler_arguments() -> Vec<String> {
    [
        "--kubeconfig=kube-scheduler.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=400",
        "--kube-api-burst=800",
    ]
    .map(String::from)
    .into()
}

/// The arguments of kwok, with the stages of nodes and pods that its module ships.
pub(crate) fn kwok_arguments() -> Result<Vec<String>> {
    let arguments = [
        "--kubeconfig=kwok.kubeconfig",
        "--manage-all-nodes=true",
        "--cidr=10.128.0.0/9",
        "--node-ip=10.0.0.1",
    ];
    let stages = module_folder("programs", "sigs.k8s.io/kwok")?.join("kustomize/stage");
    let configs = STAGES.map(|stage| format!("--config={}", stages.join(stage).display()));
    let arguments = arguments.into_iter().map(String::from);
    Ok(arguments.chain(configs).collect())
}

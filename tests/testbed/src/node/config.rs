//! The configuration files of the node's programs.
//!
//! Settings that differ from a production node have a comment. Programs run in namespaces of their own,
//! so standard ports and the standard paths below /run are free.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::network::Network;

/// The name of the node.
pub(crate) const NODE: &str = "node";

/// The address of containerd's API.
pub(super) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// The image of the process that holds a pod's namespaces.
pub(super) const PAUSE_IMAGE: &str = "llsd.test/pause:1";

/// The port of the registry on the node's address.
pub(super) const REGISTRY_PORT: u16 = 5000;

/// Where Debian, and where everyone else, installs the CNI plugins.
const CNI_FOLDERS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// The folder with the CNI plugins, if they are installed.
pub(super) fn cni_folder() -> Option<&'static str> {
    let has_plugins = |folder: &&str| Path::new(folder).join("ptp").is_file();
    CNI_FOLDERS.into_iter().find(has_plugins)
}

/// Writes the configuration of containerd, the CNI plugins, kubelet, kube-proxy and the registry into
/// the folder of the node.
pub(super) fn write(folder: &Path, network: Network, cgroup: &str) -> Result<()> {
    let etc = folder.join("etc");
    fs::create_dir_all(etc.join("cni"))?;
    fs::write(etc.join("containerd.toml"), containerd(folder))?;
    fs::write(etc.join("cni/10-pods.conflist"), cni(network).to_string())?;
    let kubelet = kubelet(folder, network, cgroup);
    fs::write(etc.join("kubelet.json"), kubelet.to_string())?;
    let proxy = kube_proxy(folder, network);
    fs::write(etc.join("kube-proxy.json"), proxy.to_string())?;
    let registry = registry(folder, network);
    fs::write(etc.join("registry.json"), registry.to_string())?;
    // Pods get the cluster DNS. The cluster DNS itself forwards to nobody.
    fs::write(etc.join("resolv.conf"), "search .\n")?;
    let host = format!("{}:{REGISTRY_PORT}", network.node());
    pull_from_node(folder, network, &host)
}

/// Makes containerd pull from the registry of the node what is named with the registry `host`. It reads
/// the file at every pull.
pub(super) fn pull_from_node(folder: &Path, network: Network, host: &str) -> Result<()> {
    let server = format!("http://{}:{REGISTRY_PORT}", network.node());
    let hosts = folder.join("etc/registries").join(host);
    fs::create_dir_all(&hosts)?;
    fs::write(
        hosts.join("hosts.toml"),
        format!(
            "server = \"{server}\"\n\n[host.\"{server}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
        ),
    )?;
    Ok(())
}

fn containerd(folder: &Path) -> String {
    let folder = folder.display();
    let cni = cni_folder().unwrap_or_default();
    format!(
        r#"version = 2
root = "{folder}/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# A container without its own setting must not be killed later than this process.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{folder}/etc/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
# There may be no systemd.
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{folder}/etc/registries"
"#
    )
}

/// Every pod gets a link of its own to the node, which routes between them. A bridge would need the
/// kernel module br_netfilter for Services.
fn cni(network: Network) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                // There is no way out, so addresses need no translation.
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [[{"subnet": network.pods()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(folder: &Path, network: Network, cgroup: &str) -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.node(),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": folder.join("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": folder.join("kubelet.crt"),
        "tlsPrivateKeyFile": folder.join("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        // Machines with control groups of version 1 are refused since 1.35.
        "failCgroupV1": false,
        "failSwapOn": false,
        "clusterDNS": [network.dns()],
        "clusterDomain": "cluster.local",
        "resolvConf": folder.join("etc/resolv.conf"),
        "podLogsDir": folder.join("pod-logs"),
        "volumePluginDir": folder.join("volume-plugins"),
        // The disk and the images belong to the developer, not to the node: evict and delete nothing.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 100,
        // Tests wait for pods, and a changed Secret should arrive soon.
        "syncFrequency": "10s",
    })
}

fn kube_proxy(folder: &Path, network: Network) -> serde_json::Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": network.node(),
        "mode": "iptables",
        "clusterCIDR": network.pods(),
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": folder.join("kube-proxy.kubeconfig")},
        // The number of tracked connections is a setting of the whole machine: leave it.
        "conntrack": {"maxPerCore": 0},
        "iptables": {"localhostNodePorts": false},
    })
}

fn registry(folder: &Path, network: Network) -> serde_json::Value {
    json!({
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": folder.join("registry")},
            "delete": {"enabled": true},
        },
        "http": {"addr": format!("{}:{REGISTRY_PORT}", network.node())},
    })
}

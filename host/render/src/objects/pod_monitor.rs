//! The PodMonitor, by which the Prometheus operator finds the metrics of the server.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::metadata::{metadata, selector};
use super::{Child, Kind, Need, ObjectInputs, Write};

pub(super) const SUFFIX: &str = "-metrics";
/// Name of the container port of the metrics.
pub(super) const PORT_NAME: &str = "metrics";
const GROUP: &str = "monitoring.coreos.com";

/// The PodMonitor, if the server serves metrics and the cluster has the API.
pub(super) fn pod_monitor(inputs: &ObjectInputs<'_>) -> Option<Child> {
    let is_served = Kind::PodMonitor.is_served(inputs.cluster);
    inputs
        .checked
        .telemetry
        .metrics_port
        .filter(|_| is_served)?;
    let object: Value = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "PodMonitor",
        "metadata": metadata(inputs.owner, SUFFIX),
        "spec": {
            "selector": {"matchLabels": selector(inputs.owner)},
            "podMetricsEndpoints": [{"port": PORT_NAME, "path": "/metrics"}],
        },
    });
    let name = format!("{}{SUFFIX}", inputs.owner.name);
    Some(Child::from_json(
        Kind::PodMonitor,
        Write::Converge,
        Need::Optional,
        name,
        object,
    ))
}

pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "PodMonitor");
    ApiResource::from_gvk_with_plural(&kind, "podmonitors")
}

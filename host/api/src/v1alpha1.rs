//! `LlamaStackDistribution` v1alpha1, with the fields of llama-stack-k8s-operator.
//!
//! These types are used only for their schema, with the same defaults, enums and bounds as upstream.
//! `conversion` works on JSON instead, so that it is lossless.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the attribute names"
)]

mod status;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

pub use status::{
    DistributionConfig, DistributionStatus, ProviderHealthStatus, ProviderInfo, VersionInfo,
};

/// Desired state of a LlamaStack server.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "llamastack.io",
    version = "v1alpha1",
    kind = "LlamaStackDistribution",
    root = "Distribution",
    plural = "llamastackdistributions",
    singular = "llamastackdistribution",
    shortname = "llsd",
    namespaced,
    status = "DistributionStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    derive = "Default",
    doc = "A LlamaStack server. v1alpha2 has more fields; both versions show the same resource.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Operator Version",
        type_ = "string",
        json_path = ".status.version.operatorVersion"
    ),
    printcolumn(
        name = "Server Version",
        type_ = "string",
        json_path = ".status.version.llamaStackServerVersion"
    ),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableReplicas"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    selectable = ".spec.server.userConfig.configMapName",
    selectable = ".spec.server.userConfig.configMapNamespace",
    selectable = ".spec.server.tlsConfig.caBundle.configMapName",
    selectable = ".spec.server.tlsConfig.caBundle.configMapNamespace"
)]
#[serde(rename_all = "camelCase")]
pub struct DistributionSpec {
    /// Number of pods.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The server.
    pub server: Server,
    /// Exposure and allowed clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

fn one() -> i32 {
    1
}

/// The server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// The server to run.
    pub distribution: DistributionType,
    /// The server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_spec: Option<ContainerSpec>,
    /// Number of server processes in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub workers: Option<i32>,
    /// Overrides of the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_overrides: Option<PodOverrides>,
    /// PodDisruptionBudget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudget>,
    /// How pods are spread over nodes and zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::unbounded_kubernetes_list::<core::TopologySpreadConstraint>"
    )]
    pub topology_spread_constraints: Option<Vec<core::TopologySpreadConstraint>>,
    /// Horizontal autoscaling by CPU and memory utilization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Persistent volume of the server. {} requests one with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// A complete server configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_config: Option<UserConfig>,
    /// CA certificates that the server trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<TlsConfig>,
    /// Not supported in this version. Use spec.providers of llamastack.io/v1alpha2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub providers: Option<Value>,
    /// Not supported in this version. Use spec.resources of llamastack.io/v1alpha2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub resources: Option<Value>,
}

/// The server to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionType {
    /// Name of a distribution that the operator supports. Set either name or image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Container image of the server. Set either name or image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// The server container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Name of the container.
    #[serde(default = "container_name")]
    pub name: String,
    /// Port of the server and its Service. Defaults to 8321.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes::<core::ResourceRequirements>")]
    pub resources: Option<core::ResourceRequirements>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::EnvVar>")]
    pub env: Option<Vec<core::EnvVar>>,
    /// Replaces the entry point of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Replaces the arguments of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

fn container_name() -> String {
    "llama-stack".to_owned()
}

/// Overrides of the pod template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodOverrides {
    /// ServiceAccount of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Seconds that the server may take to stop before it is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Volumes to add to the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::Volume>")]
    pub volumes: Option<Vec<core::Volume>>,
    /// Volume mounts to add to the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::VolumeMount>")]
    pub volume_mounts: Option<Vec<core::VolumeMount>>,
}

/// PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// Minimum number or percentage of pods that stay available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub min_available: Option<IntOrString>,
    /// Maximum number or percentage of pods that may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

/// Horizontal autoscaling by CPU and memory utilization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Minimum number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Maximum number of pods.
    pub max_replicas: i32,
    /// Target CPU utilization in percent of the request.
    #[serde(
        default,
        rename = "targetCPUUtilizationPercentage",
        skip_serializing_if = "Option::is_none"
    )]
    pub target_cpu_utilization_percentage: Option<i32>,
    /// Target memory utilization in percent of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory_utilization_percentage: Option<i32>,
}

/// A persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size of the volume. Defaults to 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Mount path in the server container. Defaults to /.llama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

/// A complete server configuration in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserConfig {
    /// Name of the ConfigMap.
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Defaults to the namespace of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_namespace: Option<String>,
}

/// CA certificates that the server trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// The CA certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,
}

/// CA certificates in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundle {
    /// Name of the ConfigMap.
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Defaults to the namespace of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_namespace: Option<String>,
    /// Keys with certificates. Defaults to ca-bundle.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    pub config_map_keys: Option<Vec<String>>,
}

/// Exposure and allowed clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether to expose the server outside the cluster.
    #[serde(default)]
    pub expose_route: bool,
    /// Other namespaces whose pods may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_from: Option<AllowedFrom>,
}

/// Other namespaces whose pods may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedFrom {
    /// Names of namespaces. "*" allows all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Label keys. A namespace with one of these labels may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

//! `LlamaStackDistribution` as the first operator had it, field by field.
//!
//! These types exist for their schema: defaults, choices and bounds are those that installed
//! resources were written against. Nothing reads them; `conversion` works on JSON, so that nothing
//! is lost on the way.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the names of its parts"
)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;
use crate::v1alpha2::Phase;

/// What to run and how it stands in the cluster.
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
    derive = "PartialEq",
    derive = "Default",
    doc = "A LlamaStack server. v1alpha2 can say more; both versions show the same resource.",
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
    /// Pods to run.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The server.
    pub server: Server,
    /// How the server is reached.
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
    /// Which server to run.
    pub distribution: DistributionType,
    /// Its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_spec: Option<ContainerSpec>,
    /// Server processes in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub workers: Option<i32>,
    /// What to change about the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_overrides: Option<PodOverrides>,
    /// How many pods may be away at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudget>,
    /// How pods spread over nodes and zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::unbounded_kubernetes_list::<core::TopologySpreadConstraint>"
    )]
    pub topology_spread_constraints: Option<Vec<core::TopologySpreadConstraint>>,
    /// Number of pods by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// A volume that outlives the pods. {} asks for one with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// A complete server configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_config: Option<UserConfig>,
    /// Authorities that the server trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<TlsConfig>,
    /// Not of this version: write spec.providers in a llamastack.io/v1alpha2 resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub providers: Option<Value>,
    /// Not of this version: write spec.resources in a llamastack.io/v1alpha2 resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub resources: Option<Value>,
}

/// Which server to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionType {
    /// A distribution that the operator knows by name. Excludes image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The server's container image. Excludes name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// The server's container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Its name.
    #[serde(default = "container_name")]
    pub name: String,
    /// Port of the server and its Service. Absent: 8321.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes::<core::ResourceRequirements>")]
    pub resources: Option<core::ResourceRequirements>,
    /// Variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::EnvVar>")]
    pub env: Option<Vec<core::EnvVar>>,
    /// Replaces the image's entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

fn container_name() -> String {
    "llama-stack".to_owned()
}

/// What to change about the pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodOverrides {
    /// ServiceAccount to run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Seconds between the request to stop and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Volumes to add to the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::Volume>")]
    pub volumes: Option<Vec<core::Volume>>,
    /// Mounts to add to the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<core::VolumeMount>")]
    pub volume_mounts: Option<Vec<core::VolumeMount>>,
}

/// How many pods may be away at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// Pods that must stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub min_available: Option<IntOrString>,
    /// Pods that may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

/// Number of pods by load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Fewest pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Most pods.
    pub max_replicas: i32,
    /// Wanted CPU use in percent of the request.
    #[serde(
        default,
        rename = "targetCPUUtilizationPercentage",
        skip_serializing_if = "Option::is_none"
    )]
    pub target_cpu_utilization_percentage: Option<i32>,
    /// Wanted memory use in percent of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory_utilization_percentage: Option<i32>,
}

/// A volume that outlives the pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Its size. Absent: 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Where the server finds it. Absent: /.llama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

/// A complete server configuration in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserConfig {
    /// Name of the ConfigMap.
    pub config_map_name: String,
    /// Its namespace. Absent: the resource's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_namespace: Option<String>,
}

/// Authorities that the server trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// Their certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,
}

/// Certificates of authorities, in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundle {
    /// Name of the ConfigMap.
    pub config_map_name: String,
    /// Its namespace. Absent: the resource's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_namespace: Option<String>,
    /// Keys that hold certificates. Absent: ca-bundle.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    pub config_map_keys: Option<Vec<String>>,
}

/// How the server is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether clients outside the cluster may connect.
    #[serde(default)]
    pub expose_route: bool,
    /// Who may connect from other namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_from: Option<AllowedFrom>,
}

/// Namespaces whose pods may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedFrom {
    /// Names of namespaces; "*" is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Label keys; a namespace that has one of them may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

/// What the operator found and did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionStatus {
    /// One word for how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Versions of operator and server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionInfo>,
    /// What the server says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution_config: Option<DistributionConfig>,
    /// How each part stands, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unbounded_kubernetes_list::<Condition>")]
    pub conditions: Option<Vec<Condition>>,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Address inside the cluster.
    #[serde(
        default,
        rename = "serviceURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub service_url: Option<String>,
    /// Address outside the cluster.
    #[serde(default, rename = "routeURL", skip_serializing_if = "Option::is_none")]
    pub route_url: Option<String>,
}

/// Versions of operator and server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// Version of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// Version that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llama_stack_server_version: Option<String>,
    /// When one of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

/// What the server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionConfig {
    /// Name of the distribution, or custom for an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_distribution: Option<String>,
    /// Providers as the server lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<Vec<ProviderInfo>>,
    /// Distributions that the operator knows by name, with their images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_distributions: Option<BTreeMap<String, String>>,
}

/// A provider as the server lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderInfo {
    /// The API it serves.
    pub api: String,
    /// Its id.
    pub provider_id: String,
    /// Its type.
    pub provider_type: String,
    /// Its configuration, as the server shows it.
    #[schemars(schema_with = "schema::untyped")]
    pub config: Value,
    /// Its health.
    pub health: ProviderHealthStatus,
}

/// Health of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderHealthStatus {
    /// One word.
    pub status: String,
    /// More words.
    pub message: String,
}

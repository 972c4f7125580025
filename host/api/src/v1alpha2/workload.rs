//! The pods of the server, as sent.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How many pods, how large, and what to change about them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Pods to run. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Server processes in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<i32>,
    /// CPU and memory of the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes::<core::ResourceRequirements>")]
    pub resources: Option<core::ResourceRequirements>,
    /// Number of pods by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// A volume that outlives the pods. {} asks for one with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Volume>,
    /// How many pods may be away at once. Exactly one of its two fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudget>,
    /// How pods spread over nodes and zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::TopologySpreadConstraint, 32>")]
    pub topology_spread_constraints: Option<Vec<core::TopologySpreadConstraint>>,
    /// What to change about the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Overrides>,
}

/// Number of pods by load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Fewest pods. Absent: replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: Option<i32>,
    /// Most pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Wanted CPU use in percent of the request. Absent, and no memory target: 80.
    #[serde(
        default,
        rename = "targetCPUUtilizationPercentage",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 10000))]
    pub target_cpu_utilization_percentage: Option<i32>,
    /// Another name for targetCPUUtilizationPercentage.
    #[serde(
        default,
        rename = "targetCPUUtilization",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 10000))]
    pub target_cpu_utilization: Option<i32>,
    /// Wanted memory use in percent of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub target_memory_utilization_percentage: Option<i32>,
}

/// A volume claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its size. Absent: 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Where the server finds it. Absent: /.llama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
}

/// How many pods may be away at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// Pods that must stay, as a number or in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub min_available: Option<IntOrString>,
    /// Pods that may go, as a number or in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

/// What to change about the pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// ServiceAccount to run under. Absent: one made for this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Name of the server container. Absent: llama-stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub container_name: Option<String>,
    /// Variables of the server container. Names that begin with LLSD_ belong to the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::EnvVar, 512>")]
    pub env: Option<Vec<core::EnvVar>>,
    /// Replaces the image's entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 131072)))]
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 131072)))]
    pub args: Option<Vec<String>>,
    /// Volumes to add to the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::Volume, 128>")]
    pub volumes: Option<Vec<core::Volume>>,
    /// Mounts to add to the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::VolumeMount, 256>")]
    pub volume_mounts: Option<Vec<core::VolumeMount>>,
    /// Seconds between the request to stop and the end. Absent: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Secrets with registry credentials, for the pod and for reading the image's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::LocalObjectReference, 32>")]
    pub image_pull_secrets: Option<Vec<core::LocalObjectReference>>,
}

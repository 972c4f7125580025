//! Workload of v1alpha2.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// The pods of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Number of pods. If absent, the operator starts one pod and leaves the number to others, such as
    /// an autoscaler of your own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Number of server processes in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<i32>,
    /// CPU and memory of the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes::<core::ResourceRequirements>")]
    pub resources: Option<core::ResourceRequirements>,
    /// Horizontal autoscaling by CPU and memory utilization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Persistent volume of the server. {} requests one with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Volume>,
    /// Restarts a pod whose server stops answering. {} uses the defaults. Absent: such a pod gets no
    /// requests, but is not restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<LivenessProbe>,
    /// Seconds in which new pods must become available, pulling their images included. After that, their
    /// rollout has failed. Defaults to 2100. A server has half an hour to start, or longer if this field
    /// allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 86400))]
    pub progress_deadline_seconds: Option<i32>,
    /// PodDisruptionBudget. Set exactly one of its two fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudget>,
    /// How pods are spread over nodes and zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::TopologySpreadConstraint, 32>")]
    pub topology_spread_constraints: Option<Vec<core::TopologySpreadConstraint>>,
    /// Overrides of the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Overrides>,
    /// A partial pod template, as in a Deployment (kubectl explain deployment.spec.template), that is merged
    /// over the operator's: containers, volumes and variables by name, mounts by path, other lists are
    /// replaced. For example {spec: {nodeSelector: {gpu: "true"}, runtimeClassName: nvidia}}. The server
    /// container is called llama-stack, unless overrides.containerName is set. What the operator sets is
    /// rejected. Host namespaces, host paths, privileged containers and another ServiceAccount need the
    /// consent of the installer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub pod_template: Option<Map<String, Value>>,
}

/// Restarts a pod whose server stops answering.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LivenessProbe {
    /// Seconds between two probes. Defaults to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: Option<i32>,
    /// Seconds to wait for an answer. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<i32>,
    /// Number of failed probes in a row after which the pod is restarted. Defaults to 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<i32>,
}

/// Horizontal autoscaling by CPU and memory utilization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Minimum number of pods. Defaults to replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: Option<i32>,
    /// Maximum number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Target CPU utilization in percent of the request. Defaults to 80 if there is no memory target.
    #[serde(
        default,
        rename = "targetCPUUtilizationPercentage",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 10000))]
    pub target_cpu_utilization_percentage: Option<i32>,
    /// Alias of targetCPUUtilizationPercentage.
    #[serde(
        default,
        rename = "targetCPUUtilization",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 10000))]
    pub target_cpu_utilization: Option<i32>,
    /// Target memory utilization in percent of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub target_memory_utilization_percentage: Option<i32>,
}

/// A PersistentVolumeClaim, created by the operator or by you (existingClaim).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Size of the volume. Defaults to 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Mount path in the server container. Defaults to /.llama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
    /// StorageClass of the volume, for example fast-ssd. Defaults to the default of the cluster. An existing
    /// volume keeps its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// How nodes may mount the volume. Defaults to [ReadWriteOnce]. With ReadWriteMany several pods can share
    /// it, and pods are replaced one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 3))]
    pub access_modes: Option<Vec<AccessMode>>,
    /// Name of a PersistentVolumeClaim of yours to use instead of one that the operator creates. Cannot be
    /// combined with size, storageClassName or retainPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub existing_claim: Option<String>,
    /// Delete: the volume claim is deleted with the resource. Retain: it stays, and a later resource of the
    /// same name uses it again. Defaults to Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_policy: Option<RetainPolicy>,
}

/// How nodes may mount a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// All pods of one node can write.
    ReadWriteOnce,
    /// Pods of all nodes can write.
    ReadWriteMany,
    /// One pod can write.
    ReadWriteOncePod,
}

impl AccessMode {
    /// The name in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}

/// What happens to a volume claim when its resource is deleted. Defaults to Delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetainPolicy {
    /// It is deleted.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// Minimum number or percentage of pods that stay available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub min_available: Option<IntOrString>,
    /// Maximum number or percentage of pods that may be unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

/// Overrides of the pod template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// ServiceAccount of the pods. By default the operator creates one for this resource. Another one
    /// needs the consent of the installer, unless the pods already have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Name of the server container. Defaults to llama-stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub container_name: Option<String>,
    /// Environment variables of the server container. Names that start with LLSD_ are reserved for the
    /// operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::EnvVar, 512>")]
    pub env: Option<Vec<core::EnvVar>>,
    /// Replaces the entry point of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 131072)))]
    pub command: Option<Vec<String>>,
    /// Replaces the arguments of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 131072)))]
    pub args: Option<Vec<String>>,
    /// Volumes to add to the pod. Host paths need the consent of the installer, unless the pods already
    /// have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::Volume, 128>")]
    pub volumes: Option<Vec<core::Volume>>,
    /// Volume mounts to add to the server container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::VolumeMount, 256>")]
    pub volume_mounts: Option<Vec<core::VolumeMount>>,
    /// Numeric user that the server runs as. By default the user of its image. Set it to run an image
    /// whose user the operator does not know, or one that runs as root by default, in a namespace that
    /// enforces the restricted Pod Security Standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: Option<i64>,
    /// Seconds that the server may take to stop before it is killed. Defaults to 30. In the first five,
    /// but at most in half of the time, it still accepts connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Secrets with registry credentials, used to pull the image and to read its labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kubernetes_list::<core::LocalObjectReference, 32>")]
    pub image_pull_secrets: Option<Vec<core::LocalObjectReference>>,
}

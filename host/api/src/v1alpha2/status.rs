//! Status of v1alpha2.
//!
//! The first fields are the same as in v1alpha1; the others are new in v1alpha2. A timestamp changes
//! only when the value it belongs to changes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// Observed state of the resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionStatus {
    /// Summary of the state in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Versions of the operator and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Versions>,
    /// Information that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution_config: Option<DistributionConfig>,
    /// Conditions of the resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Number of pods, ready or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of the pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// URL inside the cluster.
    #[serde(
        default,
        rename = "serviceURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub service_url: Option<String>,
    /// URL outside the cluster. Absent if not exposed; empty if exposed but without an address yet.
    #[serde(default, rename = "routeURL", skip_serializing_if = "Option::is_none")]
    pub route_url: Option<String>,
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Image of the server and source of its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_distribution: Option<ResolvedDistribution>,
    /// The generated configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_generation: Option<ConfigGeneration>,
    /// State of each external provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 288))]
    pub external_providers: Vec<ExternalProviderStatus>,
}

/// Summary of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// No pods run yet.
    Pending,
    /// Pods are starting or being replaced.
    Initializing,
    /// The server is available.
    Ready,
    /// An error needs a change by the user.
    Failed,
    /// The resource is being deleted.
    Terminating,
}

/// Versions of the operator and the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Version of the operator that last changed an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// Version that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llama_stack_server_version: Option<String>,
    /// Time of the last change of a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

/// Information that the server reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionConfig {
    /// Name of the distribution, or custom for an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_distribution: Option<String>,
    /// Providers that the server lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub providers: Vec<ServerProvider>,
    /// Distributions that the operator supports by name, with their images, as of the last change of the
    /// status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available_distributions: BTreeMap<String, String>,
}

/// A provider that the server lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProvider {
    /// API of the provider.
    pub api: String,
    /// Id of the provider.
    pub provider_id: String,
    /// Type of the provider.
    pub provider_type: String,
    /// Configuration of the provider, as the server reports it.
    #[serde(default)]
    #[schemars(schema_with = "schema::untyped")]
    pub config: Value,
    /// Health of the provider.
    #[serde(default)]
    pub health: ProviderHealth,
}

/// Health of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderHealth {
    /// Status in one word.
    #[serde(default)]
    pub status: String,
    /// Details of the status.
    #[serde(default)]
    pub message: String,
}

/// Image of the server and source of its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDistribution {
    /// Container image of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Digest of the image, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Source of the base configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_source: Option<ConfigSourceKind>,
    /// SHA-256 of the base configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

/// Source of the base configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigSourceKind {
    /// The ConfigMap in spec.distribution.baseConfig.
    ConfigMap,
    /// Labels of the image.
    ImageLabels,
    /// Built into the operator for a distribution that is set by name.
    Embedded,
    /// The complete configuration in spec.overrideConfig.
    Override,
    /// The distribution's own configuration, unchanged.
    DistributionDefault,
}

/// The generated configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigGeneration {
    /// ConfigMap with the generated configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// Time of the generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_at: Option<Time>,
    /// Number of providers in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_count: Option<i32>,
    /// Number of models, tools and shields that are registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_count: Option<i32>,
    /// Models of the resource, with the ids that clients use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub models: Vec<ServedModel>,
    /// Dialect of the configuration, for example llama-stack/0.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Why this dialect was selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_reason: Option<String>,
    /// Plugin that generated the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginIdentity>,
    /// Digest of the inputs, the plugin and the output. Equal receipts mean equal configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Digest of the requests to the plugin. `llsd why --requests` writes the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// Digest of the generated configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// Work of the plugin: the same for the same requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<i64>,
    /// Program that generated the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// A model of the resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServedModel {
    /// Name in the resource.
    pub name: String,
    /// Id that clients use, for example vllm/llama3.2-8b.
    pub id: String,
}

/// Identity of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginIdentity {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of the component.
    pub digest: String,
}

/// State of an external provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProviderStatus {
    /// Id of the provider.
    pub provider_id: String,
    /// Container image of the provider.
    pub image: String,
    /// Summary of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ExternalProviderPhase>,
    /// Why the provider is not ready, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Init container that installs the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_container: Option<String>,
}

/// State of an external provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExternalProviderPhase {
    /// The init container has not started.
    Pending,
    /// The init container is running.
    Installing,
    /// The provider is installed.
    Ready,
    /// The init container failed.
    Failed,
}

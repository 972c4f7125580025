//! What the operator reports about a resource.
//!
//! The first part is what every version has said since v1alpha1; the second is newer. Timestamps
//! move only when something changed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What the operator found and did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionStatus {
    /// One word for how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Versions of operator and server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Versions>,
    /// What the server says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution_config: Option<DistributionConfig>,
    /// How each part stands, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
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
    /// Address outside the cluster. Absent: not exposed. Empty: exposed, but without address yet.
    #[serde(default, rename = "routeURL", skip_serializing_if = "Option::is_none")]
    pub route_url: Option<String>,
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The server that was chosen, and where its configuration came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_distribution: Option<ResolvedDistribution>,
    /// The configuration that was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_generation: Option<ConfigGeneration>,
    /// How each external provider stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 288))]
    pub external_providers: Vec<ExternalProviderStatus>,
}

/// How a resource stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing runs yet.
    Pending,
    /// Pods are starting or changing.
    Initializing,
    /// It serves.
    Ready,
    /// It cannot go on without help.
    Failed,
    /// It is being deleted.
    Terminating,
}

/// Versions of operator and server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Version of the operator that last changed something.
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub providers: Vec<ServerProvider>,
    /// Distributions that the operator knows by name, with their images.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available_distributions: BTreeMap<String, String>,
}

/// A provider as the server lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProvider {
    /// The API it serves.
    pub api: String,
    /// Its id.
    pub provider_id: String,
    /// Its type.
    pub provider_type: String,
    /// Its configuration, as the server shows it.
    #[serde(default)]
    #[schemars(schema_with = "schema::untyped")]
    pub config: Value,
    /// Its health.
    #[serde(default)]
    pub health: ProviderHealth,
}

/// Health of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderHealth {
    /// One word.
    #[serde(default)]
    pub status: String,
    /// More words.
    #[serde(default)]
    pub message: String,
}

/// The server that was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDistribution {
    /// The image that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its digest, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Where the base configuration came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_source: Option<ConfigSourceKind>,
    /// SHA-256 of the base configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

/// Where a base configuration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigSourceKind {
    /// The ConfigMap that spec.distribution.baseConfig names.
    ConfigMap,
    /// Labels of the image.
    ImageLabels,
    /// Built into the operator for a named distribution.
    Embedded,
    /// The complete configuration that spec.overrideConfig names.
    Override,
    /// The distribution's own file, unchanged and unread.
    DistributionDefault,
}

/// The configuration that was generated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigGeneration {
    /// ConfigMap that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// When it was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_at: Option<Time>,
    /// Providers it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_count: Option<i32>,
    /// Models, tools and shields it registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_count: Option<i32>,
    /// The resource's models, with the ids that clients use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub models: Vec<ServedModel>,
    /// The dialect it is written in: llama-stack/0.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Why that dialect was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_reason: Option<String>,
    /// The plugin that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginIdentity>,
    /// Digest over the inputs, the plugin and the output: equal receipts, equal configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// A model of the resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServedModel {
    /// As the resource calls it.
    pub name: String,
    /// As clients must write it: vllm/llama3.2-8b.
    pub id: String,
}

/// A plugin, exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginIdentity {
    /// Its name.
    pub name: String,
    /// Its own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// How an external provider stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProviderStatus {
    /// Its id.
    pub provider_id: String,
    /// Its image.
    pub image: String,
    /// One word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ExternalProviderPhase>,
    /// Why it is not ready, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The init container that installs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_container: Option<String>,
}

/// Steps of an external provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExternalProviderPhase {
    /// Its container has not started.
    Pending,
    /// Its container runs.
    Installing,
    /// It is installed.
    Ready,
    /// Its container failed.
    Failed,
}

//! Status of `SchemaPlugin`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::World;
use crate::schema;

/// Observed state of the plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaPluginStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition for each stage (Resolved, Admitted, Authenticated, Fetched, Verified, Inspected,
    /// Compiled, Instantiated, Shadowed, Promoted), and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The version in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<LoadedPlugin>,
    /// The version that waits for promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<LoadedPlugin>,
    /// The previous version, which is used again if the current one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<LoadedPlugin>,
    /// Result of the shadow comparison of the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowSummary>,
    /// Plugins that images proposed under this prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proposals: Vec<Proposal>,
    /// Digests of components that are quarantined because they trapped too often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)))]
    pub quarantined: Vec<String>,
}

/// A loaded component and its description.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadedPlugin {
    /// Reference that the component was pulled from.
    pub reference: String,
    /// SHA-256 of the component. It identifies the version.
    pub component_digest: String,
    /// SHA-256 of the manifest, which is what signatures sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,
    /// Name of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Vendor of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// WIT world of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// Schemas that the plugin supports, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub schemas: Vec<String>,
    /// Fingerprints of the keys with a valid signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)))]
    pub signed_by: Vec<String>,
    /// Time of loading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Result of a shadow comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowSummary {
    /// Number of resources compared.
    pub compared: i32,
    /// Number of resources whose configuration would change.
    pub changed: i32,
    /// Number of resources that the candidate rejects and the current version accepts.
    pub refused: i32,
    /// First changes, as namespace/name: change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub examples: Vec<String>,
}

/// A plugin that an image proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Image whose label proposed the plugin.
    pub proposed_by: String,
    /// The plugin, if it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<LoadedPlugin>,
    /// Why the plugin is not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

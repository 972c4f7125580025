//! Status of `SchemaPlugin`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::World;
use crate::schema;

/// The most schemas of one plugin.
pub const MAX_SCHEMAS: usize = 64;
/// The longest schema id: a product and a release.
pub const MAX_SCHEMA_ID_BYTES: usize = 127;
/// The longest name and version of a plugin.
pub const MAX_IDENTIFIER_BYTES: usize = 63;
/// The longest vendor of a plugin.
pub const MAX_VENDOR_BYTES: usize = 256;
/// The most proposals of one prefix.
pub const MAX_PROPOSALS: usize = 64;
/// The most quarantined components.
pub const MAX_QUARANTINED: usize = 16;
/// The longest fingerprint of a key, or subject and issuer of a certificate.
const MAX_SIGNER_BYTES: usize = 1024;
/// The longest reference, image or problem.
pub const MAX_TEXT_BYTES: usize = 4096;

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
    /// How far existing resources follow the version in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutProgress>,
    /// Plugins that images proposed under this prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PROPOSALS))]
    pub proposals: Vec<Proposal>,
    /// Digests of components that are quarantined because they trapped too often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_QUARANTINED), inner(length(max = 128)))]
    pub quarantined: Vec<String>,
}

/// A loaded component and its description.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadedPlugin {
    /// Reference that the component was pulled from.
    #[schemars(length(max = MAX_TEXT_BYTES))]
    pub reference: String,
    /// SHA-256 of the component. It identifies the version.
    pub component_digest: String,
    /// SHA-256 of the manifest, which is what signatures sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,
    /// Name of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_IDENTIFIER_BYTES))]
    pub name: Option<String>,
    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_IDENTIFIER_BYTES))]
    pub version: Option<String>,
    /// Vendor of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_VENDOR_BYTES))]
    pub vendor: Option<String>,
    /// WIT world of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// Schemas that the plugin supports, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SCHEMAS), inner(length(max = MAX_SCHEMA_ID_BYTES)))]
    pub schemas: Vec<String>,
    /// Who has a valid signature: fingerprints of keys, and identities as subject (issuer).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = MAX_SIGNER_BYTES)))]
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

/// How far existing resources follow the version in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgress {
    /// The component that is rolled out.
    pub component_digest: String,
    /// For example 12 of 200, 3 unchanged, halted at ns/name.
    pub summary: String,
    /// The resource that halts the rollout, as namespace/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted_at: Option<String>,
    /// Why that resource failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A plugin that an image proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Image whose label proposed the plugin.
    #[schemars(length(max = MAX_TEXT_BYTES))]
    pub proposed_by: String,
    /// The plugin, if it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<LoadedPlugin>,
    /// Why the plugin is not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TEXT_BYTES))]
    pub problem: Option<String>,
}

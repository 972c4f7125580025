//! `SchemaPlugin`: which schema adapters and provider packs a cluster trusts, and on what terms.
//!
//! Cluster-scoped and the installer's. One resource either names a plugin (`reference`) or lets
//! images propose plugins from a repository prefix (`proposalPrefix`), under the same terms. What no
//! resource allows is denied; the longest prefix decides.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the names of its parts"
)]

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A plugin to load, or a place from which images may propose plugins.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "llamastack.io",
    version = "v1alpha1",
    kind = "SchemaPlugin",
    plural = "schemaplugins",
    singular = "schemaplugin",
    shortname = "lsplugin",
    status = "SchemaPluginStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A sandboxed component that knows a server's configuration dialect, loaded from a registry.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Plugin", type_ = "string", json_path = ".status.current.name"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.current.version"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reference",
        type_ = "string",
        json_path = ".spec.reference",
        priority = 1
    ),
    printcolumn(
        name = "Prefix",
        type_ = "string",
        json_path = ".spec.proposalPrefix",
        priority = 1
    ),
    printcolumn(
        name = "Component",
        type_ = "string",
        json_path = ".status.current.componentDigest",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SchemaPluginSpec {
    /// The plugin's artifact: registry/repository:tag or repository@sha256:…. Excludes proposalPrefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub reference: Option<String>,
    /// Lets images propose plugins by label from repositories under this prefix, compared by whole
    /// path components, for example quay.io/acme. The longest prefix decides. Excludes reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub proposal_prefix: Option<String>,
    /// Whether tags are refused, so that the bytes can never change unseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_digest: Option<bool>,
    /// Whose signatures are wanted. Absent: nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// What one call may use. Absent: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<PluginLimits>,
    /// Worlds that may be loaded. Absent: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "worlds")]
    pub worlds: Option<Vec<World>>,
    /// Secret of type kubernetes.io/dockerconfigjson. Absent: anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<NamespacedName>,
    /// Key ca.crt of a ConfigMap: the authority of the registry's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<NamespacedName>,
    /// Repository prefix to fetch from instead, for example mirror.internal:5000/acme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub mirror: Option<String>,
    /// How a new version takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

fn worlds(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": ["schema-adapter", "provider-pack"] },
    })
}

/// Kinds of plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Writes whole configurations.
    SchemaAdapter,
    /// Expands some providers.
    ProviderPack,
}

/// Whose signatures are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// enforce refuses what is not signed, audit records it, skip does not look.
    pub level: VerifyLevel,
    /// Public keys in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 8192)))]
    pub keys: Option<Vec<String>>,
    /// How many of the keys must have signed. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub threshold: Option<i32>,
}

/// How much a missing signature matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerifyLevel {
    /// The plugin is refused.
    #[default]
    Enforce,
    /// It is used, and the failure recorded.
    Audit,
    /// Nobody looks.
    Skip,
}

/// What one call may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginLimits {
    /// Instructions, roughly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000_000_i64))]
    pub fuel: Option<i64>,
    /// Memory, for example 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
    /// Milliseconds of wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub wall_clock_millis: Option<i64>,
    /// Size of an answer, for example 2Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub output: Option<Quantity>,
    /// Size of the component, for example 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub component: Option<Quantity>,
}

/// An object of some namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Absent: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// How a new version takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How a version takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RolloutMode>,
    /// Resources that may change, or be refused, when a version takes over by itself. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_diff: Option<i32>,
    /// Component digest that may take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub approved_digest: Option<String>,
}

/// How a version takes over. auto: after a shadow run within maxDiff; manual: when approvedDigest
/// names it; shadow: never. Absent: auto.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    /// By itself.
    #[default]
    Auto,
    /// When it is approved.
    Manual,
    /// Not at all: it is only compared.
    Shadow,
}

/// How far a plugin has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaPluginStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition per stage (Resolved, Admitted, Authenticated, Fetched, Verified, Inspected,
    /// Compiled, Instantiated, Shadowed, Promoted), and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The version in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<LoadedPlugin>,
    /// The version that waits to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<LoadedPlugin>,
    /// The version before, which is returned to when the current one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<LoadedPlugin>,
    /// What the newest version changes, compared before it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowSummary>,
    /// Plugins that images proposed under this prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proposals: Vec<Proposal>,
    /// Component digests that trapped too often and are not used again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)))]
    pub quarantined: Vec<String>,
}

/// A plugin's bytes and what they say of themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadedPlugin {
    /// The reference it came from.
    pub reference: String,
    /// SHA-256 of the component: its identity.
    pub component_digest: String,
    /// SHA-256 of the manifest, which signatures speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The world it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// The schemas it serves, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub schemas: Vec<String>,
    /// Fingerprints of the keys that signed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)))]
    pub signed_by: Vec<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What a candidate would change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowSummary {
    /// Resources compared.
    pub compared: i32,
    /// Resources whose configuration would change.
    pub changed: i32,
    /// Resources that the candidate refuses and the current version does not.
    pub refused: i32,
    /// The first of them, as namespace/name: what changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub examples: Vec<String>,
}

/// A plugin that an image proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The image whose label proposed it.
    pub proposed_by: String,
    /// The plugin, once it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<LoadedPlugin>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

//! `SchemaPlugin`: the schema adapters and provider packs that a cluster may load.
//!
//! Cluster-scoped, for cluster administrators. A resource either names one plugin (`reference`) or allows
//! images to propose plugins under a repository prefix (`proposalPrefix`). Plugins that no resource
//! allows are denied. If several prefixes match, the longest applies.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the attribute names"
)]

mod status;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use status::{
    LoadedPlugin, MAX_IDENTIFIER_BYTES, MAX_PROPOSALS, MAX_QUARANTINED, MAX_SCHEMA_ID_BYTES,
    MAX_SCHEMAS, MAX_TEXT_BYTES, MAX_VENDOR_BYTES, Proposal, RolloutProgress, SchemaPluginStatus,
    ShadowSummary,
};

use crate::schema;

/// A plugin to load, or a repository prefix under which images may propose plugins.
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
    doc = "A sandboxed WebAssembly component, loaded from a registry, that generates server configurations.",
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
    /// Artifact of the plugin: registry/repository:tag or repository@sha256:…. Set either reference or
    /// proposalPrefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub reference: Option<String>,
    /// Allows images to propose plugins, in a label, from repositories under this prefix, for example
    /// quay.io/acme. Compared by whole path components; the longest matching prefix applies. Set either
    /// reference or proposalPrefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub proposal_prefix: Option<String>,
    /// Whether references must have a digest. Tags are then rejected, because they can move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_digest: Option<bool>,
    /// Verification of signatures. By default signatures are not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Resource limits of the plugin. Each defaults to the limit of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<PluginLimits>,
    /// WIT worlds that may be loaded. Defaults to both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "worlds")]
    pub worlds: Option<Vec<World>>,
    /// Secret of type kubernetes.io/dockerconfigjson. By default the access is anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<NamespacedName>,
    /// ConfigMap with the CA certificate of the registry in its key ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<NamespacedName>,
    /// Repository prefix of a mirror to pull from, for example mirror.internal:5000/acme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub mirror: Option<String>,
    /// Rollout of new versions.
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

/// WIT worlds of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Generates complete server configurations.
    SchemaAdapter,
    /// Adds provider types to a schema adapter.
    ProviderPack,
}

/// Verification of signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// enforce rejects plugins without valid signatures, audit records them, skip does not verify.
    pub level: VerifyLevel,
    /// Public keys in PEM format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 8192)))]
    pub keys: Option<Vec<String>>,
    /// Signers of keyless signatures, as their certificates name them. Requires trustedRootRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub identities: Option<Vec<SignerIdentity>>,
    /// The trusted_root.json of the Sigstore instance that certifies the identities. It is read again whenever
    /// signatures are verified; nothing else is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_root_ref: Option<TrustedRootRef>,
    /// Minimum number of keys and identities with a valid signature. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub threshold: Option<i32>,
    /// Whether a signature must name the repository of the plugin. A signature that names another one is
    /// always rejected; one that names none, as bundles of cosign without -a docker-reference=…, is
    /// accepted by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_repository: Option<bool>,
    /// Predicate types of attestations that one of the keys or identities must have signed, for example
    /// https://llamastack.io/attestations/conformance/v1 or https://slsa.dev/provenance/v1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 512)))]
    pub attestations: Option<Vec<String>>,
    /// What happens to a plugin in use that is no longer sufficiently signed, because a key or identity was
    /// removed or level enforce was added. Keep (default): it stays in use, and condition Verified is False.
    /// Quarantine: it is taken out of use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_verification_loss: Option<VerificationLoss>,
}

/// A signer of keyless signatures. Set either subject or subjectRegExp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignerIdentity {
    /// Issuer of the signer's token, exactly as in the certificate, for example
    /// https://token.actions.githubusercontent.com.
    #[schemars(length(min = 1, max = 512))]
    pub issuer: String,
    /// The signer: an e-mail address, or the URL of a workflow, exactly as in the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub subject: Option<String>,
    /// Regular expression that the whole subject must match, for example
    /// https://github\.com/acme/adapter/\.github/workflows/plugin\.yml@refs/tags/v.+.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub subject_reg_exp: Option<String>,
}

/// Reference to a trusted_root.json.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustedRootRef {
    /// Kind of the object. Defaults to ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TrustedRootKind>,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object. Defaults to the namespace of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Key of the object. Defaults to trusted_root.json. Its value has at most 256 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// Kind of the object with the trusted_root.json. Defaults to ConfigMap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrustedRootKind {
    /// A ConfigMap. The content is public.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

/// What happens to a plugin in use that is no longer sufficiently signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VerificationLoss {
    /// It stays in use, and condition Verified is False.
    #[default]
    Keep,
    /// It is taken out of use. The previous version replaces it if that one is sufficiently signed.
    Quarantine,
}

/// What happens without valid signatures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerifyLevel {
    /// The plugin is rejected.
    #[default]
    Enforce,
    /// The plugin is used, and the failure is recorded in a condition.
    Audit,
    /// Signatures are not verified.
    Skip,
}

/// Resource limits of a plugin: of one call, of its component, and of compiling it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginLimits {
    /// Fuel: roughly the number of WebAssembly instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000_000_i64))]
    pub fuel: Option<i64>,
    /// Maximum memory, for example 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
    /// Maximum wall-clock time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub wall_clock_millis: Option<i64>,
    /// Maximum size of the result, for example 2Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub output: Option<Quantity>,
    /// Maximum size of the component, for example 4Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub component: Option<Quantity>,
    /// Maximum number of elements of all tables together. Defaults to 20000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub table_elements: Option<i64>,
    /// Maximum number of core instances of the component. Defaults to 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub instances: Option<i64>,
    /// Maximum memory of the process that compiles, for example 192Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub compile_memory: Option<Quantity>,
    /// Maximum CPU time of compiling in milliseconds, rounded up to seconds. Defaults to 30000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600_000))]
    pub compile_time_millis: Option<i64>,
}

impl PluginLimits {
    /// The names of its fields, to reject others in files that no API server has checked.
    pub const FIELDS: [&str; 9] = [
        "fuel",
        "memory",
        "wallClockMillis",
        "output",
        "component",
        "tableElements",
        "instances",
        "compileMemory",
        "compileTimeMillis",
    ];
}

/// Reference to an object in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object. Defaults to the namespace of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Rollout of new versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// When a new version replaces the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RolloutMode>,
    /// Maximum number of resources that mode auto may change or reject. By default there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_diff: Option<i32>,
    /// Digest of the component that mode manual may promote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub approved_digest: Option<String>,
    /// Whether a version may replace a higher one. By default it is held back, because whoever controls
    /// the registry could serve an old version with a known error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
    /// Digest of a component that must not be used. If it is in use, the previous version replaces it.
    /// `llsd plugin rollback` sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub rollback_from: Option<String>,
    /// What existing resources do with a new version. Defaults to Keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
}

/// What existing resources do with a new version. Keep: nothing, until someone runs llsd update or their spec
/// changes; Follow: they take it in turn. Defaults to Keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Existing {
    /// They keep what they have.
    #[default]
    Keep,
    /// They take it, a few at a time.
    Follow,
}

/// When a new version replaces the current one. auto: after a shadow comparison within maxDiff; manual: when
/// approvedDigest is its digest; shadow: never. Defaults to auto.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    /// After a shadow comparison within `maxDiff`.
    #[default]
    Auto,
    /// When `approvedDigest` is its digest.
    Manual,
    /// Never; it is only compared.
    Shadow,
}

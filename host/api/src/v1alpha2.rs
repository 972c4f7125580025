//! `LlamaStackDistribution` v1alpha2, the storage version.
//!
//! These types hold a resource as it was sent. Fields that the specification allows in two shapes (a
//! provider or a list, the name of a model or an object) are JSON values; only [`crate::checked`] reads
//! them.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the attribute names"
)]

mod access;
mod external;
mod networking;
mod providers;
mod registrations;
mod status;
mod storage;
mod telemetry;
mod workload;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

pub use access::{
    Access, AccessRule, AccessScope, Action, CustomAccess, GitHubAccess, Introspection, Jwks,
    KubernetesAccess, OAuth2Access, RouteRule, RouteScope, UpstreamHeaderAccess,
};
pub use external::{ExternalProvider, ExternalProviders, PullPolicy};
pub use networking::{AllowedFrom, CaBundle, Networking, Tls};
pub use providers::{PROVIDER_APIS, ProviderApi, Providers, Resources};
pub use registrations::{
    Benchmark, Dataset, DatasetPurpose, Defaults, ScoreType, ScoringFn, VectorStore,
};
pub use status::{
    ConfigGeneration, ConfigSourceKind, DistributionConfig, DistributionStatus,
    ExternalProviderPhase, ExternalProviderStatus, Phase, PluginIdentity, ProviderHealth,
    ResolvedDistribution, ServedModel, ServerProvider, Versions,
};
pub use storage::{
    KvKind, KvStorage, SecretKey, SecretReference, SqlKind, SqlStorage, StateStorage, TlsMode,
};
pub use telemetry::{Metrics, Otlp, OtlpProtocol, Telemetry};
pub use workload::{
    AccessMode, Autoscaling, DisruptionBudget, LivenessProbe, Overrides, RetainPolicy, Volume,
    Workload,
};

/// Desired state of a LlamaStack server: distribution, providers, models, networking and workload.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "llamastack.io",
    version = "v1alpha2",
    kind = "LlamaStackDistribution",
    root = "Distribution",
    plural = "llamastackdistributions",
    singular = "llamastackdistribution",
    shortname = "llsd",
    namespaced,
    status = "DistributionStatus",
    scale(
        spec_replicas_path = ".spec.workload.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    derive = "Default",
    doc = "A LlamaStack server: a distribution, the providers and models added to it, and its workload.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Providers",
        type_ = "integer",
        json_path = ".status.configGeneration.providerCount"
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
    printcolumn(
        name = "Distribution",
        type_ = "string",
        json_path = ".status.distributionConfig.activeDistribution",
        priority = 1
    ),
    printcolumn(
        name = "Config",
        type_ = "string",
        json_path = ".status.configGeneration.configMapName",
        priority = 1
    ),
    printcolumn(
        name = "Schema",
        type_ = "string",
        json_path = ".status.configGeneration.schema",
        priority = 1
    ),
    printcolumn(
        name = "Plugin",
        type_ = "string",
        json_path = ".status.configGeneration.plugin.name",
        priority = 1
    ),
    printcolumn(
        name = "Operator Version",
        type_ = "string",
        json_path = ".status.version.operatorVersion",
        priority = 1
    ),
    printcolumn(
        name = "Server Version",
        type_ = "string",
        json_path = ".status.version.llamaStackServerVersion",
        priority = 1
    ),
    selectable = ".spec.distribution.name",
    selectable = ".spec.overrideConfig.configMapName",
    selectable = ".spec.networking.tls.caBundle.configMapName"
)]
#[serde(rename_all = "camelCase")]
pub struct DistributionSpec {
    /// The server to run: the name of a supported distribution, or an image.
    pub distribution: DistributionSource,
    /// Providers by API, merged by id into those of the distribution. Each API has one provider or a list.
    /// Fields of a provider: id, provider, endpoint, apiKey, host, settings, secretRefs and secretFiles, a list of
    /// {name, key, path, setting, env}: a key of a Secret becomes a file in the pod, and the setting or variable
    /// gets its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<Providers>,
    /// Models, tools, shields and other resources to register when the server starts, and defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Storage of the server's state. Defaults to the storage of the distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StateStorage>,
    /// APIs (eval) or single providers (inference/ollama) of the distribution to disable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub disabled: Option<Vec<String>>,
    /// Port, TLS, exposure, and allowed clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Who may use the server. By default everyone who can connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Where the server sends traces and metrics, and whether its metrics can be scraped. By default neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Replicas, resources, volumes, and overrides of the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Providers that are installed from container images, by API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_providers: Option<ExternalProviders>,
    /// If true, the operator changes nothing of this resource but its status: no object is written, and no
    /// update is taken. Everything continues to run as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Merged over the generated server configuration at the end, for settings that have no field: objects
    /// are merged, null removes a key, lists of providers are merged by provider_id, other lists are
    /// replaced. For example {server: {cors: true}}. Cannot be combined with overrideConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub config_patch: Option<Map<String, Value>>,
    /// A complete server configuration of your own. Cannot be combined with providers, resources,
    /// storage, disabled, access, telemetry, configPatch or distribution.baseConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_config: Option<OverrideConfig>,
}

/// The server to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionSource {
    /// Name of a distribution that the operator supports, for example starter. Set either name or image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// Container image of the server. Set either name or image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Dialect of the server configuration, for example llama-stack/0.7. By default it is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub schema: Option<String>,
    /// What happens when the tag of the image moves. Defaults to Manual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<UpdatePolicy>,
    /// Base configuration to use instead of the one in the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_config: Option<BaseConfig>,
}

/// What happens when the tag of the image moves. Manual: nothing, until someone runs llsd update; Automatic:
/// the resource takes the new image in a paced rollout. Defaults to Manual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdatePolicy {
    /// The resource takes the new image in a paced rollout.
    Automatic,
    /// Nothing, until someone asks for the update.
    #[default]
    Manual,
}

/// A base configuration in a ConfigMap in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseConfig {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Key of the configuration. Defaults to config.yaml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// A complete server configuration in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideConfig {
    /// Name of the ConfigMap. The server reads its key config.yaml.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Only resources converted from v1alpha1 may use another namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub config_map_namespace: Option<String>,
}

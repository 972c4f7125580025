//! `LlamaStackDistribution` as users write it today, and as the cluster stores it.
//!
//! These types hold a resource exactly as it was sent. Where the specification allows two shapes
//! (a provider or a list of them, a model's name or its description) they hold JSON, and
//! [`crate::checked`] reads it: nothing else should.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column repeats the names of its parts"
)]

mod external;
mod networking;
mod providers;
mod status;
mod storage;
mod workload;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use external::{ExternalProvider, ExternalProviders, PullPolicy};
pub use networking::{AllowedFrom, CaBundle, Networking, Tls};
pub use providers::{PROVIDER_APIS, ProviderApi, Providers, Resources};
pub use status::{
    ConfigGeneration, ConfigSourceKind, DistributionConfig, DistributionStatus,
    ExternalProviderPhase, ExternalProviderStatus, Phase, PluginIdentity, ProviderHealth,
    ResolvedDistribution, ServedModel, ServerProvider, Versions,
};
pub use storage::{
    KvKind, KvStorage, SecretKey, SecretReference, SqlKind, SqlStorage, StateStorage,
};
pub use workload::{Autoscaling, DisruptionBudget, Overrides, Volume, Workload};

/// What to run, what it serves, and how it stands in the cluster.
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
    derive = "PartialEq",
    derive = "Default",
    doc = "A LlamaStack server: a distribution, the providers and models put over it, and its workload.",
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
    /// Which server to run: a name the operator knows, or an image.
    pub distribution: DistributionSource,
    /// Providers per API, put over those of the distribution by id. Each is one provider or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<Providers>,
    /// Models, tools and shields to register when the server starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Where the server keeps its state. Absent: where the distribution keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StateStorage>,
    /// APIs (eval) or single providers of the distribution (inference/ollama) to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub disabled: Option<Vec<String>>,
    /// Port, certificates, exposure, and who may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Replicas, resources, volumes, and what to change about the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Providers that arrive in images of their own, per API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_providers: Option<ExternalProviders>,
    /// A complete server configuration of your own. Excludes providers, resources, storage and disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_config: Option<OverrideConfig>,
}

/// Which server to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionSource {
    /// A distribution that the operator knows by name, for example starter. Excludes image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// The server's container image. Excludes name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// The configuration dialect, for example llama-stack/0.7. Absent: found out from the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub schema: Option<String>,
    /// The configuration to start from, instead of the one inside the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_config: Option<BaseConfig>,
}

/// A base configuration in a ConfigMap of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseConfig {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Key that holds the configuration. Absent: config.yaml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// A complete configuration in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideConfig {
    /// Name of the ConfigMap; its key config.yaml is what the server reads.
    #[schemars(length(min = 1, max = 253))]
    pub config_map_name: String,
    /// Namespace of the ConfigMap. Only resources that came from v1alpha1 name another than their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub config_map_namespace: Option<String>,
}

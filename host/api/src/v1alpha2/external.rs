//! Providers that arrive in images of their own, as sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::providers::ProviderApi;
use crate::schema;

macro_rules! external_providers {
    ($($(#[$doc:meta])* $name:ident, $field:literal;)+) => {
        /// External providers per API, installed in this order before the server starts.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct ExternalProviders {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(length(max = 32))]
                pub $name: Option<Vec<ExternalProvider>>,
            )+
        }

        impl ExternalProviders {
            /// The APIs that have something, in the order of the resource.
            pub fn entries(&self) -> impl Iterator<Item = (ProviderApi, &[ExternalProvider])> {
                [$(($field, &self.$name)),+]
                    .into_iter()
                    .filter_map(|(field, list)| Some((ProviderApi::named(field)?, list.as_deref()?)))
            }
        }
    };
}

external_providers! {
    /// Inference.
    inference, "inference";
    /// Safety.
    safety, "safety";
    /// Agents.
    agents, "agents";
    /// Vector stores.
    vector_io, "vectorIo";
    /// Data sets.
    dataset_io, "datasetIo";
    /// Scoring.
    scoring, "scoring";
    /// Evaluation.
    eval, "eval";
    /// Tools.
    tool_runtime, "toolRuntime";
    /// Fine tuning.
    post_training, "postTraining";
}

/// A provider in an image of its own. The image says which provider type it brings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProvider {
    /// Id of the provider in the server, of at most 46 characters. It wins over a provider of the same id from elsewhere.
    #[schemars(length(min = 1, max = 63))]
    pub provider_id: String,
    /// Image that holds /lls-provider/lls-provider-spec.yaml and the packages.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// When to pull the image. Absent: IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// The provider's configuration, passed on as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub config: Option<Map<String, Value>>,
}

/// When to pull an image. Absent: IfNotPresent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// On every start.
    Always,
    /// Never: the node has it.
    Never,
    /// When the node does not have it.
    #[default]
    IfNotPresent,
}

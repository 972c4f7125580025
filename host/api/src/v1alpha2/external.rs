//! External providers of v1alpha2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::providers::ProviderApi;
use crate::schema;

macro_rules! external_providers {
    ($($(#[$doc:meta])* $name:ident, $field:literal;)+) => {
        /// External providers by API, installed in this order before the server starts.
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
            /// The APIs that are set, in the order of the resource.
            pub fn entries(&self) -> impl Iterator<Item = (ProviderApi, &[ExternalProvider])> {
                [$(($field, &self.$name)),+]
                    .into_iter()
                    .filter_map(|(field, list)| Some((ProviderApi::named(field)?, list.as_deref()?)))
            }
        }
    };
}

external_providers! {
    /// Inference providers.
    inference, "inference";
    /// Safety providers.
    safety, "safety";
    /// Agent providers.
    agents, "agents";
    /// Vector store providers.
    vector_io, "vectorIo";
    /// Dataset providers.
    dataset_io, "datasetIo";
    /// Scoring providers.
    scoring, "scoring";
    /// Evaluation providers.
    eval, "eval";
    /// Tool providers.
    tool_runtime, "toolRuntime";
    /// Fine-tuning providers.
    post_training, "postTraining";
}

/// A provider that is installed from a container image. The image declares the provider type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProvider {
    /// Id of the provider, at most 46 characters. Replaces a provider with the same id from another source.
    #[schemars(length(min = 1, max = 63))]
    pub provider_id: String,
    /// Container image with /lls-provider/lls-provider-spec.yaml and the packages.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// When to pull the image. Defaults to IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Configuration of the provider, passed to the server unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub config: Option<Map<String, Value>>,
}

/// When to pull an image. Defaults to IfNotPresent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// On every start of the pod.
    Always,
    /// Never; the image must be on the node.
    Never,
    /// Only if the image is not on the node.
    #[default]
    IfNotPresent,
}

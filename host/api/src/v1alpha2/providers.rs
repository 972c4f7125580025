//! Providers and what is registered with them, as sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// An API of the server that can have providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderApi {
    /// The field of `spec.providers`: `vectorIo`.
    pub field: &'static str,
    /// The server's spelling: `vector_io`.
    pub api: &'static str,
}

macro_rules! providers {
    ($($(#[$doc:meta])* $name:ident, $field:literal, $api:literal;)+) => {
        /// Every API that can have providers, in the order of the resource.
        pub const PROVIDER_APIS: &[ProviderApi] = &[$(ProviderApi { field: $field, api: $api }),+];

        /// Providers per API. Each field holds one provider or a list of them; with more than one,
        /// each needs an id. A provider has: id, provider, endpoint, apiKey, host, settings, secretRefs.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct Providers {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(schema_with = "schema::untyped")]
                pub $name: Option<Value>,
            )+
        }

        impl Providers {
            /// The APIs that have something, in the order of the resource.
            pub fn entries(&self) -> impl Iterator<Item = (ProviderApi, &Value)> {
                [$((ProviderApi { field: $field, api: $api }, &self.$name)),+]
                    .into_iter()
                    .filter_map(|(api, value)| Some((api, value.as_ref()?)))
            }
        }
    };
}

providers! {
    /// Model inference, for example {provider: vllm, endpoint: "http://vllm:8000"}.
    inference, "inference", "inference";
    /// Shields, for example {provider: llama-guard}.
    safety, "safety", "safety";
    /// Vector stores, for example {provider: pgvector, host: {name: pg, key: host}}.
    vector_io, "vectorIo", "vector_io";
    /// Tools, for example {provider: brave-search, apiKey: {name: brave, key: token}}.
    tool_runtime, "toolRuntime", "tool_runtime";
    /// Telemetry, for releases that have it as an API.
    telemetry, "telemetry", "telemetry";
    /// Agents, for releases before responses.
    agents, "agents", "agents";
    /// Responses.
    responses, "responses", "responses";
    /// Data sets.
    dataset_io, "datasetIo", "datasetio";
    /// Evaluation.
    eval, "eval", "eval";
    /// Scoring.
    scoring, "scoring", "scoring";
    /// Fine tuning.
    post_training, "postTraining", "post_training";
    /// Files.
    files, "files", "files";
    /// Batches.
    batches, "batches", "batches";
    /// Readers of uploaded files.
    file_processors, "fileProcessors", "file_processors";
    /// Interactions, for releases that have them.
    interactions, "interactions", "interactions";
    /// Messages, for releases that have them.
    messages, "messages", "messages";
    /// Skills, for releases that have them.
    skills, "skills", "skills";
}

impl ProviderApi {
    /// The API that a user means by `name`, in the resource's or the server's spelling.
    pub fn named(name: &str) -> Option<Self> {
        PROVIDER_APIS
            .iter()
            .copied()
            .find(|known| known.field == name || known.api == name)
    }
}

/// Models, tools and shields to register.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Names, or {name, provider, modelType, contextLength, quantization, embeddingDimension, metadata}.
    /// Without provider a model belongs to the first inference provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub models: Option<Vec<Value>>,
    /// Names of tool groups (websearch, rag), or {name, provider}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub tools: Option<Vec<Value>>,
    /// Names of shields, or {name, provider, model}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub shields: Option<Vec<Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_is_found_by_either_spelling() {
        for api in PROVIDER_APIS {
            assert_eq!(ProviderApi::named(api.field), Some(*api));
            assert_eq!(ProviderApi::named(api.api), Some(*api));
        }
        assert_eq!(ProviderApi::named("vectorio"), None);
    }

    #[test]
    fn the_field_names_are_the_ones_serde_reads() {
        for api in PROVIDER_APIS {
            let providers: Providers =
                serde_json::from_value(serde_json::json!({ api.field: { "provider": "p" } }))
                    .unwrap();
            assert_eq!(
                providers
                    .entries()
                    .map(|(found, _)| found)
                    .collect::<Vec<_>>(),
                [*api]
            );
        }
    }
}

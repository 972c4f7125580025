//! Providers and resources of v1alpha2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::registrations::{Benchmark, Dataset, Defaults, ScoringFn, VectorStore};
use crate::schema;

/// An API of the server that has providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderApi {
    /// The field of `spec.providers`: `vectorIo`.
    pub field: &'static str,
    /// The name of the API in the server: `vector_io`.
    pub api: &'static str,
}

macro_rules! providers {
    ($($(#[$doc:meta])* $name:ident, $field:literal, $api:literal;)+) => {
        /// All APIs that have providers, in the order of the resource.
        pub const PROVIDER_APIS: &[ProviderApi] = &[$(ProviderApi { field: $field, api: $api }),+];

        /// Providers by API. Each field is one provider or a list. In a list of several providers, each
        /// needs an id. Fields of a provider: id, provider, endpoint, apiKey, host, settings, secretRefs and
        /// secretFiles, a list of {name, key, path, setting, env}: a key of a Secret becomes a file in the pod,
        /// and the setting or variable gets its path.
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
            /// The APIs that are set, in the order of the resource.
            pub fn entries(&self) -> impl Iterator<Item = (ProviderApi, &Value)> {
                [$((ProviderApi { field: $field, api: $api }, &self.$name)),+]
                    .into_iter()
                    .filter_map(|(api, value)| Some((api, value.as_ref()?)))
            }
        }
    };
}

providers! {
    /// Inference providers, for example {provider: vllm, endpoint: "http://vllm:8000"}.
    inference, "inference", "inference";
    /// Safety providers, for example {provider: llama-guard}.
    safety, "safety", "safety";
    /// Vector store providers, for example {provider: pgvector, host: {name: pg, key: host}}.
    vector_io, "vectorIo", "vector_io";
    /// Tool providers, for example {provider: brave-search, apiKey: {name: brave, key: token}}.
    tool_runtime, "toolRuntime", "tool_runtime";
    /// Telemetry providers, for releases with a telemetry API.
    telemetry, "telemetry", "telemetry";
    /// Agent providers, for releases before the responses API.
    agents, "agents", "agents";
    /// Responses providers.
    responses, "responses", "responses";
    /// Dataset providers.
    dataset_io, "datasetIo", "datasetio";
    /// Evaluation providers.
    eval, "eval", "eval";
    /// Scoring providers.
    scoring, "scoring", "scoring";
    /// Fine-tuning providers.
    post_training, "postTraining", "post_training";
    /// File storage providers.
    files, "files", "files";
    /// Batch providers.
    batches, "batches", "batches";
    /// Providers that process uploaded files.
    file_processors, "fileProcessors", "file_processors";
    /// Interactions providers, for releases with that API.
    interactions, "interactions", "interactions";
    /// Messages providers, for releases with that API.
    messages, "messages", "messages";
    /// Skills providers, for releases with that API.
    skills, "skills", "skills";
}

impl ProviderApi {
    /// The API with this name, either the field name or the name in the server.
    pub fn named(name: &str) -> Option<Self> {
        PROVIDER_APIS
            .iter()
            .copied()
            .find(|known| known.field == name || known.api == name)
    }
}

/// Models, tools, shields and other resources to register, and defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Names of models, or {name, provider, modelType, contextLength, quantization,
    /// embeddingDimension, metadata}. The provider defaults to the first inference provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub models: Option<Vec<Value>>,
    /// Names of tool groups (websearch, rag), or {name, provider, endpoint}. With endpoint, the URL of an
    /// MCP server, for example {name: files, endpoint: "http://mcp-files:8000/mcp"}: a tool group mcp::files
    /// up to llama-stack 0.6, and a connector from 0.5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub tools: Option<Vec<Value>>,
    /// Names of shields, or {name, provider, model}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::untyped_list")]
    pub shields: Option<Vec<Value>>,
    /// Vector stores, not in llama-stack 0.3, for example {name: docs, embeddingModel: nomic-embed-text,
    /// embeddingDimension: 768}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub vector_stores: Option<Vec<VectorStore>>,
    /// Datasets, up to llama-stack 0.7, for example {name: qa, purpose: eval/question-answer, uri:
    /// "https://example.com/qa.csv"}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub datasets: Option<Vec<Dataset>>,
    /// Scoring functions, up to llama-stack 0.7, for example {name: exact, returnType: number}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub scoring_fns: Option<Vec<ScoringFn>>,
    /// Benchmarks, up to llama-stack 0.7, for example {name: qa, dataset: qa, scoringFns: [basic::equality]}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub benchmarks: Option<Vec<Benchmark>>,
    /// What the server uses if a request names nothing. By default those of the distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_is_found_by_both_names() {
        for api in PROVIDER_APIS {
            assert_eq!(ProviderApi::named(api.field), Some(*api));
            assert_eq!(ProviderApi::named(api.api), Some(*api));
        }
        assert_eq!(ProviderApi::named("vectorio"), None);
    }

    #[test]
    fn the_field_names_match_serde() {
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

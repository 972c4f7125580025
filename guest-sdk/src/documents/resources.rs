//! The resources of an assembly request: what the server registers when it starts, and defaults.

use super::Object;
use serde::{Deserialize, Serialize};

/// What the server registers when it starts, in the user's order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Models to register.
    #[serde(default)]
    pub models: Vec<Model>,
    /// Tool groups to register.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Shields to register.
    #[serde(default)]
    pub shields: Vec<Shield>,
    /// Vector stores, datasets, scoring functions and benchmarks to register: each a [`Registration`].
    /// Benchmarks come after the datasets that they name. Capability `registrations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Registration>"))]
    pub registrations: Vec<Object>,
    /// What the server uses if a request names nothing, at `spec.resources.defaults`: a [`Defaults`], or empty.
    /// Capability `registrations`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Defaults>"))]
    pub defaults: Object,
}

/// A resource of the server to register.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// `spec.resources.vectorStores[0]`.
    pub path: String,
    /// The list that it is in: `vectorStores`, `datasets`, `scoringFns` or `benchmarks`.
    pub kind: String,
    /// Its id.
    pub name: String,
    /// Provider id; absent: the first one of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its other fields, as in the resource.
    #[serde(default)]
    pub settings: Object,
}

/// What the server uses if a request names nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Id of the provider of new vector stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_store_provider: Option<String>,
    /// Embedding model of new vector stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<String>,
    /// Model that sorts the results of a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reranker_model: Option<String>,
    /// Shield of requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shield: Option<String>,
}

/// A model to register.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// `spec.resources.models[0]`.
    pub path: String,
    /// The name at the provider.
    pub name: String,
    /// Provider id; absent: the first inference provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// `llm` or `embedding`; absent: `llm`, or `embedding` when a dimension is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_type: Option<String>,
    /// Tokens of context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Free text such as `fp8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Size of an embedding vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_dimension: Option<u64>,
    /// Free metadata, exactly as written.
    #[serde(default)]
    pub metadata: Object,
}

/// A tool group to register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// `spec.resources.tools[0]`.
    pub path: String,
    /// `websearch`, `rag`, or a full id such as `mcp::files`.
    pub name: String,
    /// Provider id; absent: the plugin chooses, or brings one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// URL of the MCP server that has the tools. Capability `tool-endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// A shield to register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Shield {
    /// `spec.resources.shields[0]`.
    pub path: String,
    /// The shield's id.
    pub name: String,
    /// Provider id; absent: the first safety provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that classifies content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

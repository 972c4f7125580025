//! Vector stores, datasets, scoring functions and benchmarks of v1alpha2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// A vector store to register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VectorStore {
    /// Its id.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Id of a vectorIo provider. Defaults to the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub provider: Option<String>,
    /// Name of the embedding model.
    #[schemars(length(min = 1, max = 512))]
    pub embedding_model: String,
    /// Number of dimensions of an embedding vector.
    #[schemars(range(min = 1, max = 100000000))]
    pub embedding_dimension: i32,
}

/// A dataset to register, for releases with a datasetio API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dataset {
    /// Its id.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What it is for, which determines its columns.
    pub purpose: DatasetPurpose,
    /// Where its rows are, for example huggingface://datasets/llamastack/simpleqa?split=train.
    #[schemars(length(min = 1, max = 2048))]
    pub uri: String,
    /// Metadata of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub metadata: Option<Map<String, Value>>,
}

/// Purpose of a dataset: post-training/messages, eval/question-answer or eval/messages-answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DatasetPurpose {
    /// Messages for fine-tuning.
    #[serde(rename = "post-training/messages")]
    PostTrainingMessages,
    /// Questions and answers.
    #[serde(rename = "eval/question-answer")]
    EvalQuestionAnswer,
    /// Messages and answers.
    #[serde(rename = "eval/messages-answer")]
    EvalMessagesAnswer,
}

/// A scoring function to register, for releases with a scoring API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoringFn {
    /// Its id.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Id of a scoring provider. Defaults to the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub provider: Option<String>,
    /// What it measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub description: Option<String>,
    /// Type of a score. Defaults to number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_type: Option<ScoreType>,
    /// Parameters, as the server reads them, for example {type: llm_as_judge, judge_model: m}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub params: Option<Map<String, Value>>,
    /// Metadata of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub metadata: Option<Map<String, Value>>,
}

/// Type of a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScoreType {
    /// A number.
    #[default]
    Number,
    /// A string.
    String,
    /// A boolean.
    Boolean,
}

/// A benchmark to register, for releases with an eval API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Benchmark {
    /// Its id.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Id of an eval provider. Defaults to the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub provider: Option<String>,
    /// Name of a registered dataset.
    #[schemars(length(min = 1, max = 253))]
    pub dataset: String,
    /// Ids of scoring functions, for example basic::equality.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub scoring_fns: Vec<String>,
    /// Metadata of the benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub metadata: Option<Map<String, Value>>,
}

/// What the server uses if a request names nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Id of the vectorIo provider of new vector stores. From llama-stack 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub vector_store_provider: Option<String>,
    /// Embedding model of new vector stores: a model of this resource, or provider/model. From llama-stack
    /// 0.3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub embedding_model: Option<String>,
    /// Model that sorts the results of a search: a model of this resource, or provider/model. From
    /// llama-stack 0.7 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub reranker_model: Option<String>,
    /// Shield of requests that name none. From llama-stack 0.4 to ogx 0.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub shield: Option<String>,
}

//! Models, tools and shields: a name, or an object with more.

use serde_json::{Map, Value};

use super::names;
use super::object::{self, Object};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::structure::found;
use crate::v1alpha2::Resources;

/// A model to register.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedModel {
    /// `spec.resources.models[0]`.
    pub path: FieldPath,
    /// The name at the provider.
    pub name: String,
    /// Provider id; absent: the first inference provider.
    pub provider: Option<String>,
    /// `llm`, `embedding` or what else the server knows.
    pub model_type: Option<String>,
    /// Tokens of context.
    pub context_length: Option<u64>,
    /// Free text such as `fp8`.
    pub quantization: Option<String>,
    /// Size of an embedding vector.
    pub embedding_dimension: Option<u64>,
    /// Free metadata, as written.
    pub metadata: Map<String, Value>,
}

/// A tool group to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedTool {
    /// `spec.resources.tools[0]`.
    pub path: FieldPath,
    /// `websearch`, `rag`, or a full id.
    pub name: String,
    /// Provider id; absent: the plugin chooses.
    pub provider: Option<String>,
}

/// A shield to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedShield {
    /// `spec.resources.shields[0]`.
    pub path: FieldPath,
    /// The shield's id.
    pub name: String,
    /// Provider id; absent: the first safety provider.
    pub provider: Option<String>,
    /// The model that judges.
    pub model: Option<String>,
}

const NAME_FIX: &str = "give its name";
const PROVIDER_FIX: &str = "give the id of a provider";
/// No model reads a hundred million tokens, and no embedding has that many dimensions.
const MOST: u64 = 100_000_000;

/// Reads all three lists.
pub(super) fn check(
    resources: &Resources,
    diagnostics: &mut Collector,
) -> (Vec<CheckedModel>, Vec<CheckedTool>, Vec<CheckedShield>) {
    let models: Vec<_> = entries("models", resources.models.as_deref())
        .filter_map(|(path, value)| {
            let known = [
                "name",
                "provider",
                "modelType",
                "contextLength",
                "quantization",
                "embeddingDimension",
                "metadata",
            ];
            check_model(
                named(value, path, "a model", &known, diagnostics)?,
                diagnostics,
            )
        })
        .collect();
    let tools: Vec<_> = entries("tools", resources.tools.as_deref())
        .filter_map(|(path, value)| {
            let named = named(value, path, "a tool", &["name", "provider"], diagnostics)?;
            let provider = named.provider(diagnostics);
            Some(CheckedTool {
                name: named.name?,
                path: named.path,
                provider,
            })
        })
        .collect();
    let shields: Vec<_> = entries("shields", resources.shields.as_deref())
        .filter_map(|(path, value)| {
            let named = named(
                value,
                path,
                "a shield",
                &["name", "provider", "model"],
                diagnostics,
            )?;
            let provider = named.provider(diagnostics);
            let model = named.object.as_ref().and_then(|object| {
                object.text("model", object::short, "give a model's name", diagnostics)
            });
            Some(CheckedShield {
                name: named.name?,
                path: named.path,
                provider,
                model,
            })
        })
        .collect();
    refuse_repetitions(
        models
            .iter()
            .map(|model| (&model.path, (&model.name, model.provider.as_ref()))),
        diagnostics,
    );
    refuse_repetitions(
        tools.iter().map(|tool| (&tool.path, &tool.name)),
        diagnostics,
    );
    refuse_repetitions(
        shields.iter().map(|shield| (&shield.path, &shield.name)),
        diagnostics,
    );
    (models, tools, shields)
}

fn check_model(named: Named<'_>, diagnostics: &mut Collector) -> Option<CheckedModel> {
    let provider = named.provider(diagnostics);
    let Some(object) = named.object else {
        return Some(CheckedModel {
            name: named.name?,
            path: named.path,
            provider: None,
            model_type: None,
            context_length: None,
            quantization: None,
            embedding_dimension: None,
            metadata: Map::new(),
        });
    };
    let model_type = object.text(
        "modelType",
        object::short,
        "use llm or embedding, or remove the field",
        diagnostics,
    );
    let embedding_dimension = object.count("embeddingDimension", MOST, diagnostics);
    if model_type.as_deref() == Some("llm") && embedding_dimension.is_some() {
        let problem = "is given for a model of type \"llm\"";
        diagnostics.error(
            &object.field("embeddingDimension"),
            problem,
            "write modelType: embedding, or remove the dimension",
        );
    }
    let context_length = object.count("contextLength", MOST, diagnostics);
    let quantization = object.text(
        "quantization",
        object::short,
        "give a text such as fp8",
        diagnostics,
    );
    let metadata = object.free("metadata", diagnostics);
    Some(CheckedModel {
        name: named.name?,
        path: named.path,
        provider,
        model_type,
        context_length,
        quantization,
        embedding_dimension,
        metadata,
    })
}

fn entries<'a>(
    field: &str,
    list: Option<&'a [Value]>,
) -> impl Iterator<Item = (FieldPath, &'a Value)> {
    let path = FieldPath::spec().at(&["resources", field]);
    list.unwrap_or_default()
        .iter()
        .enumerate()
        .map(move |(position, value)| (path.index(position), value))
}

/// Something with a name: written as a text, or as an object that holds more.
struct Named<'a> {
    path: FieldPath,
    name: Option<String>,
    object: Option<Object<'a>>,
}

impl Named<'_> {
    fn provider(&self, diagnostics: &mut Collector) -> Option<String> {
        self.object
            .as_ref()?
            .text("provider", names::provider_id, PROVIDER_FIX, diagnostics)
    }
}

fn named<'a>(
    value: &'a Value,
    path: FieldPath,
    what: &str,
    known: &[&str],
    diagnostics: &mut Collector,
) -> Option<Named<'a>> {
    match value {
        Value::String(_) => {
            let name = object::text(value, &path, object::short, NAME_FIX, diagnostics);
            Some(Named {
                path,
                name,
                object: None,
            })
        }
        Value::Object(map) => {
            let object = Object::open(map, path.clone(), known, diagnostics);
            let name = object.required_text("name", object::short, NAME_FIX, diagnostics);
            Some(Named {
                path,
                name,
                object: Some(object),
            })
        }
        other => {
            diagnostics.error(
                &path,
                format!("must be {what}, not {}", found(other)),
                "write its name, or an object with its name",
            );
            None
        }
    }
}

fn refuse_repetitions<'a, K: PartialEq>(
    entries: impl Iterator<Item = (&'a FieldPath, K)>,
    diagnostics: &mut Collector,
) {
    let mut seen: Vec<(&FieldPath, K)> = Vec::new();
    for (path, key) in entries {
        match seen.iter().find(|(_, earlier)| *earlier == key) {
            Some((first, _)) => {
                diagnostics.error(path, format!("repeats {first}"), "remove one of the two")
            }
            None => seen.push((path, key)),
        }
    }
}

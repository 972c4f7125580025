//! Checks `spec.resources`: models, tools and shields, each a name or an object.

use serde_json::{Map, Value};

use super::untyped::{self, UntypedObject};
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;
use crate::v1alpha2::Resources;

/// A model to register.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedModel {
    /// `spec.resources.models[0]`.
    pub path: FieldPath,
    /// The name that the provider uses.
    pub name: String,
    /// Id of the provider. `None`: the first inference provider.
    pub provider: Option<String>,
    /// `llm`, `embedding` or another type that the server supports.
    pub model_type: Option<String>,
    /// Context length in tokens.
    pub context_length: Option<u64>,
    /// Quantization, for example `fp8`.
    pub quantization: Option<String>,
    /// Number of dimensions of an embedding vector.
    pub embedding_dimension: Option<u64>,
    /// Metadata with any content, as written.
    pub metadata: Map<String, Value>,
}

/// A tool group to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedTool {
    /// `spec.resources.tools[0]`.
    pub path: FieldPath,
    /// `websearch`, `rag`, or a full id.
    pub name: String,
    /// Id of the provider. `None`: the plugin selects one.
    pub provider: Option<String>,
    /// URL of the MCP server that has the tools.
    pub endpoint: Option<String>,
}

/// A shield to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedShield {
    /// `spec.resources.shields[0]`.
    pub path: FieldPath,
    /// Id of the shield.
    pub name: String,
    /// Id of the provider. `None`: the first safety provider.
    pub provider: Option<String>,
    /// The model that the shield uses.
    pub model: Option<String>,
}

const NAME_FIX: &str = "set a name";
const PROVIDER_FIX: &str = "set the id of a provider";
/// Upper bound of `contextLength` and `embeddingDimension`; far above any real model.
const MAX_MODEL_SIZE: u64 = 100_000_000;

/// Checks all three lists.
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
            check_model(named(value, path, &known, diagnostics)?, diagnostics)
        })
        .collect();
    let tools: Vec<_> = entries("tools", resources.tools.as_deref())
        .filter_map(|(path, value)| {
            let known = ["name", "provider", "endpoint", "apiKey"];
            let named = named(value, path, &known, diagnostics)?;
            let provider = named.provider(diagnostics);
            let endpoint = named
                .object
                .as_ref()
                .and_then(|object| check_endpoint(object, diagnostics));
            Some(CheckedTool {
                name: named.name?,
                path: named.path,
                provider,
                endpoint,
            })
        })
        .collect();
    let shields: Vec<_> = entries("shields", resources.shields.as_deref())
        .filter_map(|(path, value)| {
            let named = named(value, path, &["name", "provider", "model"], diagnostics)?;
            let provider = named.provider(diagnostics);
            let model = named.object.as_ref().and_then(|object| {
                object.string(
                    "model",
                    names::short,
                    "set the name of a model",
                    diagnostics,
                )
            });
            Some(CheckedShield {
                name: named.name?,
                path: named.path,
                provider,
                model,
            })
        })
        .collect();
    check_unique(
        models
            .iter()
            .map(|model| (&model.path, (&model.name, model.provider.as_ref()))),
        diagnostics,
    );
    check_unique(
        tools.iter().map(|tool| (&tool.path, &tool.name)),
        diagnostics,
    );
    check_unique(
        shields.iter().map(|shield| (&shield.path, &shield.name)),
        diagnostics,
    );
    (models, tools, shields)
}

/// The URL of an MCP server. Clients send its credential with each request: no release of the server reads
/// one from its configuration.
fn check_endpoint(object: &UntypedObject<'_>, diagnostics: &mut Collector) -> Option<String> {
    if object.value("apiKey").is_some() {
        diagnostics.error(
            &object.field("apiKey"),
            "no release of the server reads the credential of an MCP server from its configuration",
            "remove it; clients send the credential with each request, in the field authorization of the tool",
        );
    }
    let fix = "use the URL of an MCP server, for example http://mcp-files:8000/mcp";
    object.string("endpoint", names::http_url, fix, diagnostics)
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
    let model_type = object.string(
        "modelType",
        names::short,
        "use llm or embedding, or remove the field",
        diagnostics,
    );
    let embedding_dimension =
        object.positive_integer("embeddingDimension", MAX_MODEL_SIZE, diagnostics);
    if model_type.as_deref() == Some("llm") && embedding_dimension.is_some() {
        let problem = "is set for a model of type \"llm\"";
        diagnostics.error(
            &object.field("embeddingDimension"),
            problem,
            "set modelType: embedding, or remove the field",
        );
    }
    let context_length = object.positive_integer("contextLength", MAX_MODEL_SIZE, diagnostics);
    let quantization = object.string(
        "quantization",
        names::short,
        "use a string such as fp8",
        diagnostics,
    );
    let metadata = object.free_object("metadata", diagnostics);
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

/// An item that is either a name or an object with a name.
struct Named<'a> {
    path: FieldPath,
    name: Option<String>,
    object: Option<UntypedObject<'a>>,
}

impl Named<'_> {
    fn provider(&self, diagnostics: &mut Collector) -> Option<String> {
        self.object
            .as_ref()?
            .string("provider", names::provider_id, PROVIDER_FIX, diagnostics)
    }
}

fn named<'a>(
    value: &'a Value,
    path: FieldPath,
    known: &[&str],
    diagnostics: &mut Collector,
) -> Option<Named<'a>> {
    match value {
        Value::String(_) => {
            let name = untyped::read_string(value, &path, names::short, NAME_FIX, diagnostics);
            Some(Named {
                path,
                name,
                object: None,
            })
        }
        Value::Object(map) => {
            let object = UntypedObject::open(map, path.clone(), known, diagnostics);
            let name = object.required_string("name", names::short, NAME_FIX, diagnostics);
            Some(Named {
                path,
                name,
                object: Some(object),
            })
        }
        other => {
            diagnostics.error(
                &path,
                format!("must be a string or an object, not {}", type_name(other)),
                "write the name, or an object with a name",
            );
            None
        }
    }
}

/// Reports entries with the key of an earlier one.
pub(super) fn check_unique<'a, K: PartialEq>(
    entries: impl Iterator<Item = (&'a FieldPath, K)>,
    diagnostics: &mut Collector,
) {
    let mut seen: Vec<(&FieldPath, K)> = Vec::new();
    for (path, key) in entries {
        match seen.iter().find(|(_, earlier)| *earlier == key) {
            Some((first, _)) => {
                diagnostics.error(path, format!("duplicates {first}"), "remove one of the two")
            }
            None => seen.push((path, key)),
        }
    }
}

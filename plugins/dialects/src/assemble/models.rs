//! Models to register.

use llsd_adapter_sdk::documents::{Model, ModelId, Object};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use crate::env::Id;
use crate::layout::State;
use crate::names;
use llsd_adapter_sdk::Release;

/// Registers the models, and returns the ids that clients use.
#[inline(never)]
pub(super) fn register(stack: &mut Stack, models: Vec<Model>) -> Vec<ModelId> {
    let mut ids = Vec::with_capacity(models.len());
    for model in models {
        let Some((provider, provider_id)) = choose_provider(stack, &model) else {
            continue;
        };
        let id = client_id(stack, &provider, &model.name);
        let name = model.name.clone();
        let Some(entry) = entry(stack, model, provider_id) else {
            continue;
        };
        ids.push(ModelId {
            name: name.clone(),
            id,
        });
        let prefixed = prefixes_ids(stack);
        let Some(list) = stack.resources_mut("models") else {
            continue;
        };
        // Before ids had a prefix, the name was the id.
        let same = |old: &Value| {
            old.get("model_id").and_then(Value::as_str) == Some(name.as_str())
                && (!prefixed || Id::of(old.get("provider_id")).name() == Some(provider.as_str()))
        };
        match list.iter().position(same) {
            Some(place) => {
                let mut first = true;
                list.retain(|old| !same(old) || std::mem::take(&mut first));
                if let Some(old) = list.get_mut(place) {
                    *old = entry;
                }
            }
            None => list.push(entry),
        }
    }
    ids
}

/// The id of a model in client requests.
fn client_id(stack: &Stack, provider: &str, name: &str) -> String {
    if prefixes_ids(stack) {
        format!("{provider}/{name}")
    } else {
        name.to_owned()
    }
}

/// The id in client requests of a model that the resource names.
pub(super) fn id_of(stack: &Stack, model: String, models: &[ModelId]) -> String {
    if let Some(registered) = models
        .iter()
        .find(|registered| registered.name == model || registered.id == model)
    {
        return registered.id.clone();
    }
    let has_prefix = model.split_once('/').is_some_and(|(prefix, _)| {
        stack
            .entries("inference")
            .any(|entry| entry.id().name() == Some(prefix))
    });
    match stack.placed("inference").next() {
        Some(first) if prefixes_ids(stack) && !has_prefix => format!("{first}/{model}"),
        _ => model,
    }
}

/// Whether a model's id is `<provider>/<name>`: from 0.2.16 on.
pub(super) fn prefixes_ids(stack: &Stack) -> bool {
    let first = Release::first(0, 2, 16);
    match stack.dialect.state {
        State::Backends(_) => true,
        State::Blocks => {
            stack.dialect.before().is_some_and(|before| before > first)
                && stack.is_from(first, true)
        }
    }
}

/// The provider's id, and the value to write: with the condition if the base has one.
fn choose_provider(stack: &mut Stack, model: &Model) -> Option<(String, Value)> {
    let api = "inference";
    let Some(wanted) = &model.provider else {
        return default_provider(stack, model);
    };
    let found = stack.entry(api, wanted).map(|entry| match entry.id() {
        Id::When { variable, .. } => (
            entry.value.get("provider_id").cloned(),
            Some(variable.to_owned()),
        ),
        _ => (None, None),
    });
    let field = format!("{}.provider", model.path);
    match found {
        None => {
            stack.no_such_id(&model.path, api, wanted);
            None
        }
        Some((None, _)) => Some((wanted.clone(), json!(wanted))),
        Some((Some(condition), variable)) => {
            let variable = variable.unwrap_or_default();
            if stack.dialect.text_version {
                // This release does not skip models of a provider that is switched off.
                let fix = format!("configure {wanted:?} under spec.providers.inference");
                stack.diagnostics.error(
                    "conditional-provider",
                    field,
                    format!("the base switches {wanted:?} on only while {variable} is set"),
                    fix,
                );
                return None;
            }
            stack.diagnostics.warning(
                "conditional-provider",
                field,
                format!("the base switches {wanted:?} on only while {variable} is set; without it the model is left out"),
                format!("set {variable} under spec.workload.overrides.env, or configure {wanted:?} under spec.providers.inference"),
            );
            Some((wanted.clone(), condition))
        }
    }
}

/// The resource's first inference provider, or the only one of the base.
fn default_provider(stack: &mut Stack, model: &Model) -> Option<(String, Value)> {
    let api = "inference";
    if let Some(first) = stack.placed(api).next() {
        return Some((first.to_owned(), json!(first)));
    }
    let remote: Vec<&str> = stack
        .entries(api)
        .filter(|entry| entry.provider_type().starts_with("remote::"))
        .filter_map(|entry| match entry.id() {
            Id::Always(id) => Some(id),
            _ => None,
        })
        .collect();
    if let [only] = remote.as_slice() {
        return Some(((*only).to_owned(), json!(only)));
    }
    let ids = stack.ids(api).join(", ");
    let fix = if ids.is_empty() {
        "configure one under spec.providers.inference".to_owned()
    } else {
        format!("configure one under spec.providers.inference, or set provider to one of: {ids}")
    };
    stack.diagnostics.error(
        "no-provider",
        format!("{}.provider", model.path),
        format!(
            "no inference provider is set for the model {:?}",
            model.name
        ),
        fix,
    );
    None
}

fn entry(stack: &mut Stack, model: Model, provider_id: Value) -> Option<Value> {
    let Model {
        path,
        name,
        provider: _,
        model_type,
        context_length,
        quantization,
        embedding_dimension,
        mut metadata,
    } = model;
    if let Some(length) = context_length {
        metadata.insert("context_length".to_owned(), json!(length));
    }
    if let Some(quantization) = quantization {
        metadata.insert("quantization".to_owned(), json!(quantization));
    }
    if let Some(dimension) = embedding_dimension {
        metadata.insert("embedding_dimension".to_owned(), json!(dimension));
    }
    let has_dimension = metadata
        .get("embedding_dimension")
        .is_some_and(|value| !value.is_null());
    let model_type =
        model_type.unwrap_or_else(|| if has_dimension { "embedding" } else { "llm" }.to_owned());
    if !stack.dialect.model_types.contains(&model_type.as_str()) {
        stack.diagnostics.error(
            "unknown-model-type",
            format!("{path}.modelType"),
            format!("{} has no models of type {model_type:?}", stack.dialect.id),
            names::choose(&model_type, stack.dialect.model_types.iter().copied()),
        );
        return None;
    }
    if model_type == "embedding" && !has_dimension {
        stack.diagnostics.error(
            "no-embedding-dimension",
            format!("{path}.embeddingDimension"),
            format!("the embedding model {name:?} has no embedding dimension, without which the server does not start"),
            "set embeddingDimension to the length of the model's vectors, for example 384",
        );
        return None;
    }
    let mut entry = Object::new();
    entry.insert("model_id".to_owned(), Value::String(name));
    entry.insert("provider_id".to_owned(), provider_id);
    entry.insert("model_type".to_owned(), Value::String(model_type));
    entry.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(entry))
}

//! The generation that the operator will do, done ahead for what can be known without a registry.
//!
//! In: a checked resource and what the process knows. Out: what the plugins say about it. Nothing of
//! what is generated is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::Diagnostic;
use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, ServerSource};
use llsd_api::{FieldPath, Rejection, choices};
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::distributions::KnownDistribution;
use llsd_render::{Inputs, ProviderPackage, Refusal, Surroundings, generate, yaml};
use serde_json::Value;

/// What a process knows about distributions and their dialects. Replaced as a whole when it changes.
pub struct Knowledge {
    plugins: Arc<[Plugin]>,
    distributions: BTreeMap<String, Known>,
}

/// A distribution, its base read once for all requests.
struct Known {
    schema: Option<String>,
    base: Option<Value>,
}

impl Knowledge {
    /// Knows these plugins, of which those that come first are asked first, and these distributions.
    pub fn new(
        plugins: Arc<[Plugin]>,
        distributions: &BTreeMap<String, KnownDistribution>,
    ) -> Self {
        let known = distributions.iter().map(|(name, distribution)| {
            let KnownDistribution {
                image: _,
                schema,
                base,
            } = distribution;
            let known = Known {
                schema: schema.clone(),
                // One that cannot be read is reported by the operator, on the resources that use it.
                base: base.as_deref().and_then(|text| yaml::read(text).ok()),
            };
            (name.clone(), known)
        });
        Self {
            plugins,
            distributions: known.collect(),
        }
    }
}

/// What the plugins, or the list of distributions, say about a resource.
pub(crate) enum Preview {
    /// Errors and warnings.
    Said(Vec<Diagnostic>),
    /// The resource names a distribution that does not exist.
    Unknown(Rejection),
    /// It takes the network to say more.
    Silent,
}

/// Does ahead what the operator will do. `config_map_base`: the base from the resource's ConfigMap.
pub(crate) fn preview(
    knowledge: &Knowledge,
    checked: &Checked,
    config_map_base: Option<Value>,
) -> Preview {
    let known = match &checked.server {
        ServerSource::Image(_) => None,
        ServerSource::Named(name) => match knowledge.distributions.get(name) {
            Some(known) => Some(known),
            None => return Preview::Unknown(unknown_distribution(knowledge, name)),
        },
    };
    let base = match &checked.config_source {
        ConfigSource::Generated { base: Some(_) } => config_map_base.as_ref(),
        ConfigSource::Generated { base: None } => known.and_then(|known| known.base.as_ref()),
        ConfigSource::Override { .. } | ConfigSource::DistributionDefault => None,
    };
    let Some(base) = base else {
        return Preview::Silent;
    };
    let adapters: Vec<&dyn Adapter> = knowledge
        .plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect();
    // What the map of distributions says holds for the distribution's own base.
    let mapped = match config_map_base {
        Some(_) => None,
        None => known.and_then(|known| known.schema.clone()),
    };
    let hints = Hints {
        schema: checked.schema.clone().or(mapped),
        ..Hints::default()
    };
    let inputs = Inputs {
        checked,
        base,
        hints: &hints,
        surroundings: &surroundings(checked),
    };
    match generate(&adapters, &inputs) {
        Ok(generated) => Preview::Said(generated.warnings),
        Err(Refusal::Rejected(found)) => Preview::Said(found),
        Err(Refusal::Undecided(undecided)) => {
            let fix =
                "name the dialect in spec.distribution.schema, or install a plugin that serves it";
            // A SchemaPlugin that is not known here may serve it.
            Preview::Said(vec![Diagnostic::warning(
                "unsupported-schema",
                "spec.distribution",
                undecided.to_string(),
                fix,
            )])
        }
        // A plugin's failure is not its author's fault, and may be gone when the operator asks.
        Err(Refusal::Fault(fault)) => {
            tracing::warn!(%fault, "no preview");
            Preview::Silent
        }
    }
}

fn unknown_distribution(knowledge: &Knowledge, name: &str) -> Rejection {
    Rejection {
        field: FieldPath::spec().at(&["distribution", "name"]),
        problem: format!("no distribution is called {name:?}"),
        fix: choices(name, knowledge.distributions.keys().map(String::as_str)),
    }
}

/// The type of an external provider is declared inside its image, which is not read here. Any type
/// does: only the provider's id matters to the rest of the resource.
fn surroundings(checked: &Checked) -> Surroundings {
    let packages = checked.external.iter().map(|one| {
        let package = ProviderPackage {
            provider_type: format!("remote::{}", one.id),
            api: one.api.to_owned(),
            module: one.id.to_string(),
        };
        (one.id.to_string(), package)
    });
    Surroundings {
        packages: packages.collect(),
        ..Surroundings::default()
    }
}

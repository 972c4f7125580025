//! The generation that the operator will do, done ahead.
//!
//! In: a checked resource, its base where that had to be asked for, and what the process knows. Out:
//! what the plugins say about it. Nothing of what is generated is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, ServerSource};
use llsd_api::{Diagnostic, FieldPath, choices};
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::distributions::KnownDistribution;
use llsd_render::{GenerateError, Inputs, PodContext, generate, yaml};
use serde_json::Value;

use crate::base::Base;

/// What a process knows about distributions and their dialects. Replaced as a whole when it changes.
pub struct Knowledge {
    plugins: Arc<[Plugin]>,
    distributions: BTreeMap<String, Known>,
    /// Whether there may be others.
    may_be_more: bool,
}

/// A distribution, its base read once for all requests.
struct Known {
    image: String,
    schema: Option<String>,
    base: Option<Value>,
}

impl Knowledge {
    /// Knows these plugins, of which those that come first are asked first, and these distributions,
    /// which need not be all.
    pub fn new(
        plugins: Arc<[Plugin]>,
        distributions: &BTreeMap<String, KnownDistribution>,
        may_be_more: bool,
    ) -> Self {
        let known = distributions.iter().map(|(name, distribution)| {
            let KnownDistribution {
                image,
                schema,
                base,
            } = distribution;
            let known = Known {
                image: image.clone(),
                schema: schema.clone(),
                // One that cannot be read is reported by the operator, on the resources that use it.
                base: base.as_deref().and_then(|text| yaml::read(text).ok()),
            };
            (name.clone(), known)
        });
        Self {
            plugins,
            distributions: known.collect(),
            may_be_more,
        }
    }

    /// The image that holds the base of a resource, unless the base is known already.
    pub(crate) fn image_of<'a>(&'a self, checked: &'a Checked) -> Option<&'a str> {
        match &checked.server {
            ServerSource::Image(image) => Some(image),
            ServerSource::Named(name) => {
                let known = self.distributions.get(name)?;
                known.base.is_none().then_some(&known.image)
            }
        }
    }
}

/// What the plugins, or the list of distributions, say about a resource.
pub(crate) enum Preview {
    /// Errors and warnings.
    Said(Vec<Diagnostic>),
    /// The resource names a distribution that does not exist.
    Unknown(Diagnostic),
    /// Nothing is generated, or what it is generated from could not be had.
    Silent,
}

/// Does ahead what the operator will do. `asked`: the base, where it had to be asked for.
pub(crate) fn preview(knowledge: &Knowledge, checked: &Checked, asked: Option<Base>) -> Preview {
    let known = match &checked.server {
        ServerSource::Image(_) => None,
        ServerSource::Named(name) => match knowledge.distributions.get(name) {
            Some(known) => Some(known),
            None => return unknown_distribution(knowledge, name),
        },
    };
    // What the map of distributions says holds for the distribution's own base.
    let mapped = known.and_then(|known| known.schema.clone());
    let (config, hints, mapped) = match (&checked.config_source, &asked) {
        (ConfigSource::Override { .. } | ConfigSource::DistributionDefault, _) => {
            return Preview::Silent;
        }
        (ConfigSource::Generated { base }, Some(asked)) => {
            let mapped = mapped.filter(|_| base.is_none());
            (&asked.config, asked.hints.clone(), mapped)
        }
        (ConfigSource::Generated { base: Some(_) }, None) => return Preview::Silent,
        (ConfigSource::Generated { base: None }, None) => {
            match known.and_then(|known| known.base.as_ref()) {
                Some(config) => (config, Hints::default(), mapped),
                None => return Preview::Silent,
            }
        }
    };
    let adapters: Vec<&dyn Adapter> = knowledge
        .plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect();
    let hints = Hints {
        schema: checked.schema.clone().or(hints.schema).or(mapped),
        ..hints
    };
    let inputs = Inputs {
        checked,
        base: config,
        hints: &hints,
        pod_context: &PodContext::with_placeholder_packages(checked),
    };
    match generate(&adapters, &inputs) {
        Ok(generated) => Preview::Said(generated.warnings),
        Err(GenerateError::Rejected(found)) => Preview::Said(found),
        Err(GenerateError::Schema(undecided)) => {
            let fix =
                "name the dialect in spec.distribution.schema, or install a plugin that serves it";
            // The SchemaPlugin that serves it may be applied after the resource.
            Preview::Said(vec![
                Diagnostic::warning(
                    FieldPath::spec().field("distribution"),
                    undecided.to_string(),
                    fix,
                )
                .with_code("unsupported-schema"),
            ])
        }
        // A plugin's failure is not its author's fault, and may be gone when the operator asks.
        Err(GenerateError::Fault(fault)) => {
            tracing::warn!(%fault, "no preview");
            Preview::Silent
        }
    }
}

fn unknown_distribution(knowledge: &Knowledge, name: &str) -> Preview {
    let field = FieldPath::spec().at(&["distribution", "name"]);
    let fix = choices(name, knowledge.distributions.keys().map(String::as_str));
    if knowledge.may_be_more {
        let problem = format!(
            "no distribution called {name:?} is known; the operator's ConfigMap, where it may stand, is not read"
        );
        let warning = Diagnostic::warning(field, problem, fix).with_code("unknown-distribution");
        return Preview::Said(vec![warning]);
    }
    let problem = format!("no distribution is called {name:?}");
    Preview::Unknown(Diagnostic::error(field, problem, fix))
}

#[cfg(test)]
mod tests {
    use llsd_api::Severity;
    use llsd_render::distributions;
    use serde_json::json;

    use super::*;

    fn preview_of(name: &str, may_be_more: bool) -> Preview {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"}, "spec": {"distribution": {"name": name}},
        });
        let checked = llsd_api::check_document(document).result.unwrap();
        let knowledge = Knowledge::new(Arc::new([]), &distributions::builtin(), may_be_more);
        preview(&knowledge, &checked, None)
    }

    #[test]
    fn an_unknown_name_is_refused_only_when_all_names_are_known() {
        let Preview::Unknown(rejection) = preview_of("startr", false) else {
            panic!("nobody knows the name");
        };
        assert_eq!(
            rejection.to_string(),
            "spec.distribution.name: no distribution is called \"startr\"; did you mean \"starter\"?"
        );
        let Preview::Said(found) = preview_of("startr", true) else {
            panic!("the name may stand where nobody could look");
        };
        let fields: Vec<_> = found
            .iter()
            .map(|one| (one.severity, one.field.as_str()))
            .collect();
        assert_eq!(fields, [(Severity::Warning, "spec.distribution.name")]);
    }
}

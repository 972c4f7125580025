//! A preview of the generation that the operator will do.
//!
//! In: a checked resource, its base configuration, and the plugins and distributions in use. Out: the
//! diagnostics. The generated configuration is discarded.

use std::collections::BTreeMap;
use std::sync::Arc;

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, ServerSource};
use llsd_api::{Diagnostic, DistributionStatus, FieldPath, choices};
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::distributions::KnownDistribution;
use llsd_render::{GenerateError, Generated, Inputs, PodContext, generate, running_release, yaml};
use serde_json::Value;

use crate::base_config::FetchedBase;

/// The plugins and distributions in use. Replaced as a whole when one of them changes.
pub struct Catalog {
    plugins: Arc<[Plugin]>,
    distributions: BTreeMap<String, CatalogEntry>,
    /// Whether the list of distributions may be incomplete.
    may_be_incomplete: bool,
}

/// A distribution. Its base configuration is parsed once for all requests.
struct CatalogEntry {
    image: String,
    schema: Option<String>,
    base: Option<Value>,
}

impl Catalog {
    /// A catalog of plugins, in the order in which they are tried, and of distributions.
    /// `may_be_incomplete` if there may be distributions that are not in the list.
    pub fn new(
        plugins: Arc<[Plugin]>,
        distributions: &BTreeMap<String, KnownDistribution>,
        may_be_incomplete: bool,
    ) -> Self {
        let entries = distributions.iter().map(|(name, distribution)| {
            let KnownDistribution {
                image,
                schema,
                base,
                user: _,
            } = distribution;
            let entry = CatalogEntry {
                image: image.clone(),
                schema: schema.clone(),
                // The operator reports an invalid base on the resources that use it.
                base: base.as_deref().and_then(|text| yaml::read(text).ok()),
            };
            (name.clone(), entry)
        });
        Self {
            plugins,
            distributions: entries.collect(),
            may_be_incomplete,
        }
    }

    /// The image that contains the base configuration of a resource, unless the catalog has it.
    pub(crate) fn image_of<'a>(&'a self, checked: &'a Checked) -> Option<&'a str> {
        match &checked.server {
            ServerSource::Image(image) => Some(image),
            ServerSource::Named(name) => {
                let entry = self.distributions.get(name)?;
                entry.base.is_none().then_some(&entry.image)
            }
        }
    }
}

/// Generates the configuration as the operator does, and returns the diagnostics. `fetched` is the base
/// configuration that was read from a ConfigMap or image, and `status` that of the stored resource.
/// Returns nothing if no configuration is generated, or if the base configuration or a plugin is not
/// available.
pub(crate) fn preview(
    catalog: &Catalog,
    checked: &Checked,
    fetched: Option<FetchedBase>,
    status: &DistributionStatus,
) -> Vec<Diagnostic> {
    let (entry, image) = match &checked.server {
        ServerSource::Image(image) => (None, image),
        ServerSource::Named(name) => match catalog.distributions.get(name) {
            Some(entry) => (Some(entry), &entry.image),
            None => return vec![unknown_distribution(catalog, name)],
        },
    };
    // The schema in the list of distributions applies only to the distribution's own base.
    let listed = entry.and_then(|entry| entry.schema.clone());
    let (config, hints, listed) = match (&checked.config_source, &fetched) {
        (ConfigSource::Override { .. } | ConfigSource::DistributionDefault, _) => {
            return Vec::new();
        }
        (ConfigSource::Generated { base }, Some(fetched)) => {
            let listed = listed.filter(|_| base.is_none());
            (&fetched.config, fetched.hints.clone(), listed)
        }
        (ConfigSource::Generated { base: Some(_) }, None) => return Vec::new(),
        (ConfigSource::Generated { base: None }, None) => {
            match entry.and_then(|entry| entry.base.as_ref()) {
                Some(config) => (config, Hints::default(), listed),
                None => return Vec::new(),
            }
        }
    };
    let hints = Hints {
        schema: checked.schema.clone().or(hints.schema).or(listed),
        ..hints
    };
    let adapters: Vec<&dyn Adapter> = catalog
        .plugins
        .iter()
        .map(|plugin| plugin as &dyn Adapter)
        .collect();
    let digest = fetched
        .as_ref()
        .and_then(|base| base.image_digest.as_deref());
    let running = running_release(status, image, digest, &adapters);
    let image_variables = fetched.as_ref().map(|base| base.image_variables.clone());
    let inputs = Inputs {
        checked,
        base: config,
        hints: &hints,
        running_release: running.as_deref(),
        pod_context: &PodContext {
            image_variables: image_variables.unwrap_or_default(),
            // The certificates of the platform are not read here, so that they may exist.
            may_have_ca_bundle: true,
            ..PodContext::with_placeholder_packages(checked)
        },
    };
    diagnostics(generate(&adapters, &inputs))
}

/// The errors and warnings of a generation.
fn diagnostics(result: Result<Generated, GenerateError>) -> Vec<Diagnostic> {
    match result {
        Ok(generated) => generated.warnings,
        Err(GenerateError::Rejected { diagnostics, .. }) => diagnostics,
        Err(GenerateError::Schema(error)) => {
            let fix = "set spec.distribution.schema, or install a plugin that supports the schema";
            // A warning, because the SchemaPlugin may be applied after the resource.
            vec![
                Diagnostic::warning(
                    FieldPath::spec().field("distribution"),
                    error.to_string(),
                    fix,
                )
                .with_code("unsupported-schema"),
            ]
        }
        // The author of the resource cannot fix a failing plugin, and it may work again later.
        Err(GenerateError::Fault(fault)) => {
            tracing::warn!(%fault, "the plugin failed; admitting the resource without a preview");
            Vec::new()
        }
    }
}

fn unknown_distribution(catalog: &Catalog, name: &str) -> Diagnostic {
    let field = FieldPath::spec().at(&["distribution", "name"]);
    let fix = choices(name, catalog.distributions.keys().map(String::as_str));
    if catalog.may_be_incomplete {
        let problem = format!(
            "distribution {name:?} not found; the operator's ConfigMap, which may define it, is not available"
        );
        return Diagnostic::warning(field, problem, fix).with_code("unknown-distribution");
    }
    let problem = format!("no distribution is called {name:?}");
    Diagnostic::error(field, problem, fix)
}

#[cfg(test)]
mod tests {
    use llsd_api::Severity;
    use llsd_render::distributions;
    use serde_json::json;

    use super::*;

    fn preview_of(name: &str, may_be_incomplete: bool) -> Vec<Diagnostic> {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"}, "spec": {"distribution": {"name": name}},
        });
        let checked = llsd_api::check_document(document).result.unwrap();
        let catalog = Catalog::new(Arc::new([]), &distributions::builtin(), may_be_incomplete);
        preview(&catalog, &checked, None, &DistributionStatus::default())
    }

    #[test]
    fn an_unknown_distribution_is_refused_only_if_the_list_is_complete() {
        let complete = preview_of("startr", false);
        assert_eq!(complete.len(), 1);
        assert!(complete[0].is_error());
        assert_eq!(
            complete[0].to_string(),
            "spec.distribution.name: no distribution is called \"startr\"; did you mean \"starter\"?"
        );
        let found = preview_of("startr", true);
        let fields: Vec<_> = found
            .iter()
            .map(|diagnostic| (diagnostic.severity, diagnostic.field.as_str()))
            .collect();
        assert_eq!(fields, [(Severity::Warning, "spec.distribution.name")]);
    }
}

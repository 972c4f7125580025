//! A resource that was read, normalised and found good: what everything after the edge works with.
//!
//! In: a [`Distribution`] as sent, or JSON from a file. Out: [`Checked`], where every choice of
//! shape has been made and every name is valid, or all reasons why not, at once. What needs a
//! plugin or the cluster (does the model's provider exist, does the Secret) is not asked here.

mod disabled;
mod external;
pub(crate) mod names;
mod networking;
mod object;
mod providers;
mod resources;
mod secrets;
mod source;
mod storage;
mod workload;

use kube::ResourceExt;
use serde_json::Value;

pub use disabled::CheckedDisabled;
pub use external::CheckedExternal;
pub use networking::{CheckedNetworking, DEFAULT_PORT, Expose};
pub use providers::{CheckedProvider, ProviderId};
pub use resources::{CheckedModel, CheckedShield, CheckedTool};
pub use secrets::{Reference, TextOrReference, variable};
pub use source::{BaseConfigMap, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
pub use storage::{CheckedKv, CheckedSql, CheckedStorage};
pub use workload::{
    CheckedAutoscaling, CheckedBudget, CheckedVolume, CheckedWorkload, DEFAULT_MOUNT_PATH,
};

use crate::conversion::was_made_in_v1alpha1;
use crate::crd;
use crate::diagnostic::{Collector, Diagnostic, Diagnostics};
use crate::document;
use crate::field_path::FieldPath;
use crate::structure;
use crate::v1alpha2::Distribution;

/// A resource that was read, normalised and found good.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Name of the resource; empty where the cluster will choose it.
    pub name: String,
    /// Namespace, where stated.
    pub namespace: Option<String>,
    /// Whether it was made through v1alpha1, whatever was edited since.
    pub was_made_in_v1alpha1: bool,
    /// Which server to run.
    pub server: ServerSource,
    /// The dialect that the resource names.
    pub schema: Option<String>,
    /// Where the server's configuration comes from.
    pub config_source: ConfigSource,
    /// Providers in the order of the resource, without those that `disabled` leaves out.
    pub providers: Vec<CheckedProvider>,
    /// Models to register.
    pub models: Vec<CheckedModel>,
    /// Tool groups to register.
    pub tools: Vec<CheckedTool>,
    /// Shields to register.
    pub shields: Vec<CheckedShield>,
    /// State storage.
    pub storage: CheckedStorage,
    /// What to leave out.
    pub disabled: Vec<CheckedDisabled>,
    /// How the server is reached.
    pub networking: CheckedNetworking,
    /// The pods.
    pub workload: CheckedWorkload,
    /// Providers in images of their own.
    pub external: Vec<CheckedExternal>,
    /// Warnings of the checks, sorted by field.
    pub warnings: Vec<Diagnostic>,
}

impl Checked {
    /// Every secret reference that the server needs, sorted by place.
    pub fn references(&self) -> Vec<&Reference> {
        let providers = self
            .providers
            .iter()
            .flat_map(|provider| provider.references.values());
        let mut references: Vec<_> = providers.chain(self.storage.references()).collect();
        references.sort();
        references
    }
}

/// The outcome of [`review`]. There can be warnings whether or not the resource is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// The checked resource, or all errors.
    pub result: Result<Checked, Diagnostics>,
    /// Warnings, sorted by field.
    pub warnings: Vec<Diagnostic>,
}

/// Checks a resource of the cluster. Everything is checked, also what the API server checks: it may
/// have stored the resource before a rule existed.
pub fn check(distribution: &Distribution) -> Result<Checked, Diagnostics> {
    let mut diagnostics = Collector::default();
    let mut spec = serde_json::to_value(&distribution.spec).unwrap_or_default();
    let schema = &crd::V1ALPHA2_SCHEMA["properties"]["spec"];
    let repaired = structure::compare(&mut spec, schema, &FieldPath::spec(), &mut diagnostics);
    judge(distribution, diagnostics, &repaired).result
}

/// Checks a document from a file: its envelope, its structure and its meaning, all at once.
pub fn review(document: Value) -> CheckReport {
    let mut diagnostics = Collector::default();
    match document::read(document, &mut diagnostics) {
        Some((distribution, repaired)) => judge(&distribution, diagnostics, &repaired),
        None => report(None, diagnostics),
    }
}

/// Adds the checks of meaning. What they say about a place that had to be repaired is no news.
fn judge(
    distribution: &Distribution,
    mut diagnostics: Collector,
    repaired: &[FieldPath],
) -> CheckReport {
    let mut meaning = Collector::default();
    let checked = check_spec(distribution, &mut meaning);
    let is_news = |place: &FieldPath| {
        !repaired
            .iter()
            .any(|repaired| repaired.contains(place) || place.contains(repaired))
    };
    diagnostics.errors.extend(
        meaning
            .errors
            .into_iter()
            .filter(|error| is_news(&error.field)),
    );
    diagnostics.warnings.extend(
        meaning
            .warnings
            .into_iter()
            .filter(|warning| is_news(&warning.field)),
    );
    report(checked, diagnostics)
}

fn report(checked: Option<Checked>, diagnostics: Collector) -> CheckReport {
    let Collector {
        errors,
        mut warnings,
    } = diagnostics;
    warnings.sort();
    warnings.dedup();
    let result = match (Diagnostics::new(errors), checked) {
        (Some(errors), _) => Err(errors),
        (None, Some(checked)) => Ok(Checked {
            warnings: warnings.clone(),
            ..checked
        }),
        // Each `None` of a check comes with an error, unless the resource was repaired.
        (None, None) => Err(Diagnostics::from(Diagnostic::error(
            FieldPath::root(),
            "could not be read",
            "report this resource: its problem has no message",
        ))),
    };
    CheckReport { result, warnings }
}

fn check_spec(distribution: &Distribution, diagnostics: &mut Collector) -> Option<Checked> {
    let spec = &distribution.spec;
    check_name(distribution, diagnostics);
    let server = source::check(&spec.distribution, diagnostics);
    source::refuse_beside_override(spec, diagnostics);
    let mut providers = spec
        .providers
        .as_ref()
        .map(|all| providers::check(all, diagnostics))
        .unwrap_or_default();
    let (models, tools, shields) = spec
        .resources
        .as_ref()
        .map(|all| resources::check(all, diagnostics))
        .unwrap_or_default();
    let storage = spec
        .storage
        .as_ref()
        .map(|storage| storage::check(storage, diagnostics))
        .unwrap_or_default();
    let disabled = disabled::check(spec.disabled.as_deref().unwrap_or_default(), diagnostics);
    let networking = spec
        .networking
        .as_ref()
        .map(|networking| networking::check(networking, diagnostics))
        .unwrap_or_default();
    let workload = spec
        .workload
        .as_ref()
        .map(|workload| workload::check(workload, diagnostics))
        .unwrap_or_default();
    let external = spec
        .external_providers
        .as_ref()
        .map(|all| external::check(all, &providers, diagnostics))
        .unwrap_or_default();

    let references = providers
        .iter()
        .flat_map(|provider| provider.references.values())
        .chain(storage.references());
    secrets::refuse_collisions(references, &storage.derived_variables(), diagnostics);
    let asks_for_something = !(providers.is_empty()
        && models.is_empty()
        && tools.is_empty()
        && shields.is_empty()
        && storage == CheckedStorage::default()
        && disabled.is_empty()
        && external.is_empty()
        && networking.tls_secret.is_none());
    disabled::leave_out(&mut providers, &disabled, diagnostics);

    Some(Checked {
        name: distribution.metadata.name.clone().unwrap_or_default(),
        namespace: distribution.namespace(),
        was_made_in_v1alpha1: was_made_in_v1alpha1(distribution.annotations()),
        server: server?,
        schema: spec.distribution.schema.clone(),
        config_source: source::config_source(spec, asks_for_something),
        providers,
        models,
        tools,
        shields,
        storage,
        disabled,
        networking,
        workload,
        external,
        warnings: Vec::new(),
    })
}

/// Longest name whose children (`<name>-network-policy`) still have names that the cluster takes.
const LONGEST_NAME: usize = 48;

fn check_name(distribution: &Distribution, diagnostics: &mut Collector) {
    let Some(name) = &distribution.metadata.name else {
        return;
    };
    let path = FieldPath::root().at(&["metadata", "name"]);
    if name.len() > LONGEST_NAME {
        let problem = format!(
            "{name:?} has {} characters, too many for the objects named after it",
            name.len()
        );
        diagnostics.error(
            &path,
            problem,
            format!("use at most {LONGEST_NAME} characters"),
        );
    } else {
        let fix = "use lower-case letters, digits and \"-\", with a letter or digit first and last";
        object::typed_text(name, &path, names::label(name), fix, diagnostics);
    }
}

#[cfg(test)]
mod tests;

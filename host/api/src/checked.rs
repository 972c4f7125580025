//! Checks a resource and normalizes it to [`Checked`].
//!
//! In: a [`Distribution`] of the cluster, or JSON from a file. Out: [`Checked`], where alternative
//! shapes are normalized and names are valid, or all errors. Everything after the check works with
//! [`Checked`]. Checks that need a plugin or the cluster (does the provider of a model exist, does the
//! Secret exist) are not part of this module.

mod access;
mod config_patch;
mod disabled;
mod external;
mod networking;
mod providers;
mod registrations;
mod resources;
mod secrets;
mod source;
mod storage;
mod telemetry;
mod untyped;
mod workload;

use kube::ResourceExt;
use serde_json::{Map, Value};

pub use access::CheckedAccess;
pub use disabled::CheckedDisabled;
pub use external::CheckedExternal;
pub use networking::{BackendTls, CheckedNetworking, DEFAULT_PORT, Expose, Gateway, GatewayParent};
pub use providers::{CheckedProvider, ProviderId, SECRET_FILES_FOLDER, SecretFile};
pub use registrations::CheckedRegistration;
pub use resources::{CheckedModel, CheckedShield, CheckedTool};
pub use secrets::{Reference, StringOrReference, variable};
pub use source::{BaseConfigMap, ConfigSource, DEFAULT_CONFIG_KEY, ServerSource};
pub use storage::{CheckedKv, CheckedMongoDb, CheckedOptions, CheckedSql, CheckedStorage};
pub use telemetry::{CheckedOtlp, CheckedTelemetry};
pub use workload::{
    CheckedAutoscaling, CheckedBudget, CheckedPodTemplate, CheckedVolume, CheckedWorkload,
    DEFAULT_MOUNT_PATH,
};

use crate::conversion::{Version, convert, v1alpha1_path, was_made_in_v1alpha1};
use crate::crd;
use crate::diagnostic::{Collector, Diagnostic, Diagnostics};
use crate::document;
use crate::field_path::FieldPath;
use crate::gvk::{API_VERSION_V1ALPHA1, KIND};
use crate::labels;
use crate::limits;
use crate::names;
use crate::schema_validation;
use crate::v1alpha2::{Distribution, UpdatePolicy};

/// A resource that passed all checks, in normalized form.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Name of the resource; empty if the cluster generates it.
    pub name: String,
    /// Namespace, if set.
    pub namespace: Option<String>,
    /// Whether it was created through v1alpha1, even if it was edited through v1alpha2 since.
    pub was_made_in_v1alpha1: bool,
    /// The label `app` of its pods.
    pub pod_app: &'static str,
    /// The server to run.
    pub server: ServerSource,
    /// What happens when the tag of the image moves.
    pub updates: UpdatePolicy,
    /// The dialect, if the resource sets it.
    pub schema: Option<String>,
    /// The source of the server configuration.
    pub config_source: ConfigSource,
    /// Providers in the order of the resource, without the disabled ones.
    pub providers: Vec<CheckedProvider>,
    /// Models to register.
    pub models: Vec<CheckedModel>,
    /// Tool groups to register.
    pub tools: Vec<CheckedTool>,
    /// Shields to register.
    pub shields: Vec<CheckedShield>,
    /// Vector stores, datasets, scoring functions and benchmarks to register.
    pub registrations: Vec<CheckedRegistration>,
    /// Defaults of the server, as written.
    pub defaults: Map<String, Value>,
    /// State storage.
    pub storage: CheckedStorage,
    /// APIs and providers to disable.
    pub disabled: Vec<CheckedDisabled>,
    /// Port, TLS and access.
    pub networking: CheckedNetworking,
    /// Authentication and authorisation.
    pub access: Option<CheckedAccess>,
    /// Traces and metrics.
    pub telemetry: CheckedTelemetry,
    /// The pods of the server.
    pub workload: CheckedWorkload,
    /// Providers that are installed from container images.
    pub external: Vec<CheckedExternal>,
    /// Merged over the generated configuration, as written.
    pub config_patch: Map<String, Value>,
    /// Warnings of the checks, sorted by field.
    pub warnings: Vec<Diagnostic>,
}

impl Checked {
    /// All secret references that the server needs, sorted by field.
    pub fn references(&self) -> Vec<&Reference> {
        let providers = self
            .providers
            .iter()
            .flat_map(|provider| provider.references.values());
        let access = self.access.iter().flat_map(|one| one.references.values());
        let mut references: Vec<_> = providers
            .chain(self.storage.references())
            .chain(access)
            .chain(self.telemetry.references())
            .collect();
        references.sort();
        references
    }

    /// The keys of Secrets that are files in the pod.
    pub fn secret_files(&self) -> impl Iterator<Item = &SecretFile> {
        self.providers
            .iter()
            .flat_map(|provider| &provider.secret_files)
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

/// Checks a resource of the cluster. This repeats the checks of the API server, because the resource
/// may have been stored before a rule existed.
pub fn check(distribution: &Distribution) -> Result<Checked, Diagnostics> {
    let mut spec = serde_json::to_value(&distribution.spec).unwrap_or_default();
    if let Some(error) = limits::check_spec(&spec) {
        return Err(error.into());
    }
    let mut diagnostics = Collector::default();
    let schema = &crd::V1ALPHA2_SCHEMA["properties"]["spec"];
    let repaired =
        schema_validation::validate(&mut spec, schema, &FieldPath::spec(), &mut diagnostics);
    check_semantics(distribution, diagnostics, &repaired).result
}

/// Checks a document from a file: `apiVersion` and `kind`, schema and semantics.
pub fn check_document(document: Value) -> CheckReport {
    let mut diagnostics = Collector::default();
    let spec = document.get("spec");
    if let Some(error) = spec.and_then(limits::check_spec) {
        diagnostics.errors.push(error);
        return report(None, diagnostics);
    }
    match document::read(document, &mut diagnostics) {
        Some((distribution, repaired)) => check_semantics(&distribution, diagnostics, &repaired),
        None => report(None, diagnostics),
    }
}

/// Checks a document of either version from a file. A v1alpha1 document is checked against its own
/// schema and converted, as in the cluster; the diagnostics name its own fields.
pub fn check_document_of_any_version(mut document: Value) -> CheckReport {
    if document["apiVersion"] != API_VERSION_V1ALPHA1 || document["kind"] != KIND {
        return check_document(document);
    }
    let mut diagnostics = Collector::default();
    let schema = &crd::V1ALPHA1_SCHEMA["properties"]["spec"];
    let repaired = match document.get_mut("spec") {
        Some(spec) => {
            schema_validation::validate(spec, schema, &FieldPath::spec(), &mut diagnostics)
        }
        None => Vec::new(),
    };
    let converted = match convert(document, Version::V1Alpha2) {
        Ok(converted) => check_document(converted),
        Err(error) => {
            diagnostics.errors.push(error);
            return report(None, diagnostics);
        }
    };
    let own_field = |mut diagnostic: Diagnostic| {
        if let Some(path) = v1alpha1_path(diagnostic.field.as_str()) {
            diagnostic.field = FieldPath::from(path);
        }
        diagnostic
    };
    let is_new = |diagnostic: &Diagnostic| {
        let field = &diagnostic.field;
        let mut known = repaired.iter();
        !known.any(|known| known.contains(field) || field.contains(known))
    };
    let CheckReport { result, warnings } = converted;
    diagnostics
        .warnings
        .extend(warnings.into_iter().map(own_field).filter(is_new));
    let checked = match result {
        Ok(checked) => Some(checked),
        Err(errors) => {
            let errors = errors.into_iter().map(own_field).filter(is_new);
            diagnostics.errors.extend(errors);
            None
        }
    };
    report(checked, diagnostics)
}

/// Runs the semantic checks. Drops their diagnostics about repaired fields, which already have an
/// error.
fn check_semantics(
    distribution: &Distribution,
    mut diagnostics: Collector,
    repaired: &[FieldPath],
) -> CheckReport {
    let mut semantic = Collector::default();
    let checked = check_spec(distribution, &mut semantic);
    let is_new = |field: &FieldPath| {
        !repaired
            .iter()
            .any(|repaired| repaired.contains(field) || field.contains(repaired))
    };
    diagnostics.errors.extend(
        semantic
            .errors
            .into_iter()
            .filter(|error| is_new(&error.field)),
    );
    diagnostics.warnings.extend(
        semantic
            .warnings
            .into_iter()
            .filter(|warning| is_new(&warning.field)),
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
        // A check that returns `None` adds an error, so this is a bug in a check.
        (None, None) => Err(Diagnostics::from(Diagnostic::error(
            FieldPath::root(),
            "failed to check the resource",
            "report a bug: a check failed without a message",
        ))),
    };
    CheckReport { result, warnings }
}

fn check_spec(distribution: &Distribution, diagnostics: &mut Collector) -> Option<Checked> {
    let spec = &distribution.spec;
    check_name(distribution, diagnostics);
    let server = source::check(&spec.distribution, diagnostics);
    source::check_override(spec, diagnostics);
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
    let registrations = spec
        .resources
        .as_ref()
        .map(|all| registrations::check(all, diagnostics))
        .unwrap_or_default();
    let defaults = spec
        .resources
        .as_ref()
        .and_then(|all| all.defaults.as_ref())
        .map(untyped::fields)
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
    let access = spec
        .access
        .as_ref()
        .and_then(|access| access::check(access, diagnostics));
    let telemetry = spec
        .telemetry
        .as_ref()
        .map(|telemetry| telemetry::check(telemetry, networking.port(), diagnostics))
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

    let config_patch = spec.config_patch.clone().unwrap_or_default();
    config_patch::check(&config_patch, diagnostics);

    let references = providers
        .iter()
        .flat_map(|provider| provider.references.values())
        .chain(storage.references())
        .chain(access.iter().flat_map(|one| one.references.values()))
        .chain(telemetry.references());
    secrets::check_collisions(references, &storage.derived_variables(), diagnostics);
    let has_settings = !(providers.is_empty()
        && models.is_empty()
        && tools.is_empty()
        && shields.is_empty()
        && registrations.is_empty()
        && defaults.is_empty()
        && storage == CheckedStorage::default()
        && disabled.is_empty()
        && external.is_empty()
        && config_patch.is_empty()
        && access.is_none()
        && telemetry == CheckedTelemetry::default()
        && networking.tls_secret.is_none());
    disabled::remove_disabled(&mut providers, &disabled, diagnostics);

    Some(Checked {
        name: distribution.metadata.name.clone().unwrap_or_default(),
        namespace: distribution.namespace(),
        was_made_in_v1alpha1: was_made_in_v1alpha1(distribution.annotations()),
        pod_app: labels::pod_app(distribution.annotations()),
        server: server?,
        updates: spec.distribution.updates.unwrap_or_default(),
        schema: spec.distribution.schema.clone(),
        config_source: source::config_source(spec, has_settings),
        providers,
        models,
        tools,
        shields,
        registrations,
        defaults,
        storage,
        disabled,
        networking,
        access,
        telemetry,
        workload,
        external,
        config_patch,
        warnings: Vec::new(),
    })
}

/// Names of child objects add a suffix (`<name>-network-policy`) and are limited to 63 characters.
const MAX_NAME_LENGTH: usize = 48;

fn check_name(distribution: &Distribution, diagnostics: &mut Collector) {
    let Some(name) = &distribution.metadata.name else {
        return;
    };
    let path = FieldPath::root().at(&["metadata", "name"]);
    if name.len() > MAX_NAME_LENGTH {
        let problem = format!(
            "{name:?} has {} characters, too many for the names of its child objects",
            name.len()
        );
        diagnostics.error(
            &path,
            problem,
            format!("use at most {MAX_NAME_LENGTH} characters"),
        );
    } else {
        let fix = "use lower-case letters, digits and \"-\", with a letter or digit first and last";
        untyped::check_string(name, &path, names::label(name), fix, diagnostics);
    }
}

#[cfg(test)]
mod tests;

//! A resource that was read, normalised and found good: what everything after the edge works with.
//!
//! In: a [`Distribution`] as sent, or JSON from a file. Out: [`Checked`], where every choice of
//! shape has been made and every name is valid, or all reasons why not, at once. What needs a
//! plugin or the cluster (does the model's provider exist, does the Secret) is not asked here.

mod external;
pub(crate) mod names;
mod networking;
mod object;
mod providers;
mod resources;
mod secrets;
mod storage;
mod workload;

use kube::ResourceExt;
use serde_json::Value;

pub use external::CheckedExternal;
pub use networking::{CheckedNetworking, DEFAULT_PORT, Expose};
pub use providers::{CheckedProvider, ProviderId};
pub use resources::{CheckedModel, CheckedShield, CheckedTool};
pub use secrets::{Reference, TextOrReference, VARIABLE_PREFIX, variable};
pub use storage::{CheckedKv, CheckedSql, CheckedStorage};
pub use workload::{
    CheckedAutoscaling, CheckedBudget, CheckedVolume, CheckedWorkload, DEFAULT_MOUNT_PATH,
    DEFAULT_VOLUME_SIZE,
};

use crate::crd;
use crate::document;
use crate::field_path::FieldPath;
use crate::rejection::{Findings, Notice, Rejections};
use crate::rules;
use crate::structure;
use crate::v1alpha2::{Distribution, DistributionSource, DistributionSpec, ProviderApi};

/// A resource that was read, normalised and found good.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Name of the resource; empty where the cluster will choose it.
    pub name: String,
    /// Namespace, where stated.
    pub namespace: Option<String>,
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
    /// What its author should still look at.
    pub notices: Vec<Notice>,
}

/// Which server to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource {
    /// A distribution that the operator knows by name.
    Named(String),
    /// An image.
    Image(String),
}

/// Where the server's configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// The user's complete file: nothing is generated.
    Override {
        /// ConfigMap whose key `config.yaml` is the file.
        config_map: String,
        /// Its namespace, where it is not the resource's.
        namespace: Option<String>,
    },
    /// The resource put over a base.
    Generated {
        /// ConfigMap that holds the base; absent: the image's labels or what is built in.
        base: Option<BaseConfigMap>,
    },
    /// The resource asks for nothing: the distribution's own file runs unchanged.
    DistributionDefault,
}

/// A ConfigMap of the resource's namespace that holds a base configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseConfigMap {
    /// Its name.
    pub name: String,
    /// The key that holds the configuration.
    pub key: String,
}

/// The key of a base configuration that names none.
pub const DEFAULT_CONFIG_KEY: &str = "config.yaml";

/// Something to leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedDisabled {
    /// `spec.disabled[0]`.
    pub path: FieldPath,
    /// As written: `postTraining`, `post_training` or `inference/ollama`.
    pub name: String,
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

/// What was found, whether or not the resource is good.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The resource, or every reason to refuse it.
    pub result: Result<Checked, Rejections>,
    /// What its author should still look at, sorted by place.
    pub notices: Vec<Notice>,
}

/// Checks a resource of the cluster. Everything is checked, also what the API server checks: it may
/// have stored the resource before a rule existed.
pub fn check(distribution: &Distribution) -> Result<Checked, Rejections> {
    let mut findings = Findings::default();
    let mut spec = serde_json::to_value(&distribution.spec).unwrap_or_default();
    let schema = &crd::V1ALPHA2_SCHEMA["properties"]["spec"];
    let repaired = structure::compare(&mut spec, schema, &FieldPath::spec(), &mut findings);
    judge(distribution, findings, &repaired).result
}

/// Checks a document from a file: its envelope, its structure and its meaning, all at once.
pub fn review(document: Value) -> Verdict {
    let mut findings = Findings::default();
    match document::read(document, &mut findings) {
        Some((distribution, repaired)) => judge(&distribution, findings, &repaired),
        None => verdict(None, findings),
    }
}

/// Adds the checks of meaning. What they say about a place that had to be repaired is no news.
fn judge(distribution: &Distribution, mut findings: Findings, repaired: &[FieldPath]) -> Verdict {
    let mut meaning = Findings::default();
    let checked = check_spec(distribution, &mut meaning);
    let is_news = |place: &FieldPath| {
        !repaired
            .iter()
            .any(|repaired| repaired.holds(place) || place.holds(repaired))
    };
    findings.rejections.extend(
        meaning
            .rejections
            .into_iter()
            .filter(|rejection| is_news(&rejection.field)),
    );
    findings.notices.extend(
        meaning
            .notices
            .into_iter()
            .filter(|notice| is_news(&notice.field)),
    );
    verdict(checked, findings)
}

fn verdict(checked: Option<Checked>, findings: Findings) -> Verdict {
    let Findings {
        rejections,
        mut notices,
    } = findings;
    notices.sort();
    notices.dedup();
    let result = match (Rejections::new(rejections), checked) {
        (Some(rejections), _) => Err(rejections),
        (None, Some(checked)) => Ok(Checked {
            notices: notices.clone(),
            ..checked
        }),
        // Each `None` of a check comes with a rejection, unless the resource was repaired.
        (None, None) => Err(Rejections::from(crate::Rejection {
            field: FieldPath::root(),
            problem: "could not be read".to_owned(),
            fix: "report this resource: its problem has no message".to_owned(),
        })),
    };
    Verdict { result, notices }
}

fn check_spec(distribution: &Distribution, findings: &mut Findings) -> Option<Checked> {
    let spec = &distribution.spec;
    check_name(distribution, findings);
    let server = check_source(&spec.distribution, findings);
    refuse_beside_override(spec, findings);
    let mut providers = spec
        .providers
        .as_ref()
        .map(|all| providers::check(all, findings))
        .unwrap_or_default();
    let (models, tools, shields) = spec
        .resources
        .as_ref()
        .map(|all| resources::check(all, findings))
        .unwrap_or_default();
    let storage = spec
        .storage
        .as_ref()
        .map(|storage| storage::check(storage, findings))
        .unwrap_or_default();
    let disabled = check_disabled(spec.disabled.as_deref().unwrap_or_default(), findings);
    let networking = spec
        .networking
        .as_ref()
        .map(|networking| networking::check(networking, findings))
        .unwrap_or_default();
    let workload = spec
        .workload
        .as_ref()
        .map(|workload| workload::check(workload, findings))
        .unwrap_or_default();
    let external = spec
        .external_providers
        .as_ref()
        .map(|all| external::check(all, &providers, findings))
        .unwrap_or_default();

    let references = providers
        .iter()
        .flat_map(|provider| provider.references.values())
        .chain(storage.references());
    secrets::refuse_collisions(references, &storage.derived_variables(), findings);
    let asks_for_something = !(providers.is_empty()
        && models.is_empty()
        && tools.is_empty()
        && shields.is_empty()
        && storage == CheckedStorage::default()
        && disabled.is_empty()
        && external.is_empty()
        && networking.tls_secret.is_none());
    leave_out_disabled(&mut providers, &disabled, findings);

    Some(Checked {
        name: distribution.metadata.name.clone().unwrap_or_default(),
        namespace: distribution.namespace(),
        server: server?,
        schema: spec.distribution.schema.clone(),
        config_source: config_source(spec, asks_for_something),
        providers,
        models,
        tools,
        shields,
        storage,
        disabled,
        networking,
        workload,
        external,
        notices: Vec::new(),
    })
}

/// Longest name whose children (`<name>-network-policy`) still have names that the cluster takes.
pub const LONGEST_NAME: usize = 48;

fn check_name(distribution: &Distribution, findings: &mut Findings) {
    let Some(name) = &distribution.metadata.name else {
        return;
    };
    let path = FieldPath::root().at(&["metadata", "name"]);
    if name.len() > LONGEST_NAME {
        let problem = format!(
            "{name:?} has {} characters, too many for the objects named after it",
            name.len()
        );
        findings.refuse(
            &path,
            problem,
            format!("use at most {LONGEST_NAME} characters"),
        );
    } else {
        let fix = "use lower-case letters, digits and \"-\", with a letter or digit first and last";
        object::typed_text(name, &path, names::label(name), fix, findings);
    }
}

fn check_source(source: &DistributionSource, findings: &mut Findings) -> Option<ServerSource> {
    let DistributionSource {
        name,
        image,
        schema,
        base_config,
    } = source;
    let path = FieldPath::spec().field("distribution");
    if let Some(schema) = schema {
        object::typed_text(
            schema,
            &path.field("schema"),
            names::schema_id(schema),
            "give a schema such as llama-stack/0.7",
            findings,
        );
    }
    if let Some(base) = base_config {
        let path = path.field("baseConfig");
        let (name, key) = (&base.config_map_name, base.key.as_deref());
        object::typed_text(
            name,
            &path.field("configMapName"),
            names::subdomain(name),
            "give the name of a ConfigMap",
            findings,
        );
        if let Some(key) = key {
            object::typed_text(
                key,
                &path.field("key"),
                names::data_key(key),
                "give a key of the ConfigMap",
                findings,
            );
        }
    }
    match (name, image) {
        (Some(name), None) => {
            let fix = "give the name of a distribution, for example starter";
            object::typed_text(
                name,
                &path.field("name"),
                names::provider_id(name).map(|_| "is no name of a distribution"),
                fix,
                findings,
            );
            Some(ServerSource::Named(name.clone()))
        }
        (None, Some(image)) => {
            let fix = "give an image such as docker.io/llamastack/distribution-starter:0.7.3";
            object::typed_text(
                image,
                &path.field("image"),
                names::image(image),
                fix,
                findings,
            );
            Some(ServerSource::Image(image.clone()))
        }
        (Some(_), Some(_)) => {
            findings.breaks(&rules::ONE_SOURCE, &path);
            None
        }
        (None, None) => {
            findings.breaks(&rules::SOME_SOURCE, &path);
            None
        }
    }
}

fn refuse_beside_override(spec: &DistributionSpec, findings: &mut Findings) {
    let Some(config) = &spec.override_config else {
        return;
    };
    workload::check_override(config, findings);
    let path = FieldPath::spec();
    let excluded = [
        (
            &rules::OVERRIDE_WITHOUT_PROVIDERS,
            path.field("providers"),
            spec.providers.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_RESOURCES,
            path.field("resources"),
            spec.resources.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_STORAGE,
            path.field("storage"),
            spec.storage.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_DISABLED,
            path.field("disabled"),
            spec.disabled.is_some(),
        ),
        (
            &rules::OVERRIDE_WITHOUT_BASE,
            path.at(&["distribution", "baseConfig"]),
            spec.distribution.base_config.is_some(),
        ),
    ];
    for (rule, field, _) in excluded.iter().filter(|(_, _, given)| *given) {
        findings.breaks(rule, field);
    }
}

fn config_source(spec: &DistributionSpec, asks_for_something: bool) -> ConfigSource {
    if let Some(config) = &spec.override_config {
        return ConfigSource::Override {
            config_map: config.config_map_name.clone(),
            namespace: config
                .config_map_namespace
                .clone()
                .filter(|name| !name.is_empty()),
        };
    }
    let base = spec
        .distribution
        .base_config
        .as_ref()
        .map(|base| BaseConfigMap {
            name: base.config_map_name.clone(),
            key: base
                .key
                .clone()
                .unwrap_or_else(|| DEFAULT_CONFIG_KEY.to_owned()),
        });
    if asks_for_something || base.is_some() {
        ConfigSource::Generated { base }
    } else {
        ConfigSource::DistributionDefault
    }
}

fn check_disabled(disabled: &[String], findings: &mut Findings) -> Vec<CheckedDisabled> {
    let mut checked: Vec<CheckedDisabled> = Vec::new();
    for (position, name) in disabled.iter().enumerate() {
        let path = FieldPath::spec().field("disabled").index(position);
        let good = name.split('/').count() <= 2
            && name
                .split('/')
                .all(|part| names::provider_id(part).is_none());
        if !good {
            findings.refuse(
                &path,
                format!("{name:?} is neither an API nor a provider"),
                "write an API (eval) or one provider of it (inference/ollama)",
            );
        } else if let Some(first) = checked
            .iter()
            .find(|earlier| target(&earlier.name) == target(name))
        {
            findings.refuse(
                &path,
                format!("repeats {}", first.path),
                "remove one of the two",
            );
        }
        checked.push(CheckedDisabled {
            path,
            name: name.clone(),
        });
    }
    checked
}

/// The API in the server's spelling, and the provider if one is named.
fn target(disabled: &str) -> (&str, Option<&str>) {
    let (api, provider) = match disabled.split_once('/') {
        Some((api, provider)) => (api, Some(provider)),
        None => (disabled, None),
    };
    (
        ProviderApi::named(api).map_or(api, |known| known.api),
        provider,
    )
}

/// Disabled wins over providers, and says so.
fn leave_out_disabled(
    providers: &mut Vec<CheckedProvider>,
    disabled: &[CheckedDisabled],
    findings: &mut Findings,
) {
    providers.retain(|provider| {
        let by = disabled.iter().find(|disabled| {
            let (api, id) = target(&disabled.name);
            api == provider.api && id.is_none_or(|id| id == provider.id.as_str())
        });
        if let Some(by) = by {
            let problem = format!("is not used: {} disables {:?}", by.path, by.name);
            findings.note(&provider.path, problem, "remove one of the two");
        }
        by.is_none()
    });
}

#[cfg(test)]
mod tests;

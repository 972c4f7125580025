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
use crate::document;
use crate::field_path::FieldPath;
use crate::rejection::{Findings, Notice, Rejections};
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
    /// What its author should still look at.
    pub notices: Vec<Notice>,
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
    let server = source::check(&spec.distribution, findings);
    source::refuse_beside_override(spec, findings);
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
    let disabled = disabled::check(spec.disabled.as_deref().unwrap_or_default(), findings);
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
    disabled::leave_out(&mut providers, &disabled, findings);

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
        notices: Vec::new(),
    })
}

/// Longest name whose children (`<name>-network-policy`) still have names that the cluster takes.
const LONGEST_NAME: usize = 48;

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

#[cfg(test)]
mod tests;

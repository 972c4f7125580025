//! The Kubernetes objects of a resource: names, labels and defaults as the first operator chose
//! them, so that what it left running can be taken over.
//!
//! In: a checked resource, the image, what configures the server, and whom the objects belong to.
//! Out: every object, complete and byte for byte, or what this operator cannot do for the resource
//! yet. A field that is asked for and not honoured is refused, never dropped.

mod config_map;
mod deployment;
mod environment;
mod pod;
mod service;
mod unsupported;
mod volume;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use llsd_api::checked::Checked;
use llsd_api::{API_VERSION_V1ALPHA2, KIND, Rejections, labels};
use serde::Serialize;

use crate::digest;
use crate::generate::Generated;

pub use config_map::config_map_name;
pub use service::service_url;

/// Annotation of every object: a digest of what we want it to be. An object that carries another
/// one was written for another resource, or by another release of the operator.
pub const DESIRED_DIGEST: &str = "llamastack.io/desired-digest";

/// Whom the objects belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Namespace of the resource, and of every object.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    /// Its uid: a resource of the same name that was made anew is another owner.
    pub uid: String,
}

/// What configures the server.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigPlan {
    /// A file of ours.
    Generated(Box<Generated>),
    /// The user's own file.
    Override {
        /// ConfigMap whose key `config.yaml` is the file.
        config_map: String,
        /// Digest of what it holds: the pods are replaced when it changes.
        digest: String,
    },
    /// The file inside the image.
    DistributionDefault,
}

/// Everything that should exist for a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The generated file. Never changes: another file is another object.
    pub config_map: Option<ConfigMap>,
    /// The identity of the pods.
    pub service_account: ServiceAccount,
    /// The volume. Written once: the cluster refuses most changes.
    pub claim: Option<PersistentVolumeClaim>,
    /// The address inside the cluster.
    pub service: Service,
    /// The pods.
    pub deployment: Deployment,
}

/// Builds every object of a resource.
pub fn objects(
    checked: &Checked,
    image: &str,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<Desired, Rejections> {
    unsupported::refuse(checked, plan, owner)?;
    let mut desired = Desired {
        config_map: config_map::config_map(plan, owner),
        service_account: ServiceAccount {
            metadata: metadata(owner, "-sa"),
            ..ServiceAccount::default()
        },
        claim: volume::claim(checked, owner),
        service: service::service(checked, owner),
        deployment: deployment::deployment(checked, image, plan, owner),
    };
    desired.sign();
    Ok(desired)
}

impl Desired {
    /// Puts its digest on every object.
    fn sign(&mut self) {
        let Self {
            config_map,
            service_account,
            claim,
            service,
            deployment,
        } = self;
        if let Some(config_map) = config_map {
            let digest = digest_of(config_map);
            annotate(&mut config_map.metadata, digest);
        }
        if let Some(claim) = claim {
            let digest = digest_of(claim);
            annotate(&mut claim.metadata, digest);
        }
        let digest = digest_of(service_account);
        annotate(&mut service_account.metadata, digest);
        let digest = digest_of(service);
        annotate(&mut service.metadata, digest);
        let digest = digest_of(deployment);
        annotate(&mut deployment.metadata, digest);
    }
}

fn digest_of(object: &impl Serialize) -> String {
    let value = serde_json::to_value(object).unwrap_or_default();
    digest::of(value.to_string().as_bytes())
}

fn annotate(metadata: &mut ObjectMeta, digest: String) {
    metadata
        .annotations
        .get_or_insert_default()
        .insert(DESIRED_DIGEST.to_owned(), digest);
}

/// Name, labels and owner of the object `<resource><suffix>`.
fn metadata(owner: &Owner, suffix: &str) -> ObjectMeta {
    let labels = [
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::PART_OF, labels::PRODUCT),
        (labels::WATCH, "true"),
    ];
    ObjectMeta {
        name: Some(format!("{}{suffix}", owner.name)),
        namespace: Some(owner.namespace.clone()),
        labels: Some(text_map(labels)),
        owner_references: Some(vec![OwnerReference {
            api_version: API_VERSION_V1ALPHA2.to_owned(),
            kind: KIND.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// What selects the pods. It has never changed, and must not: selectors are immutable.
fn selector(owner: &Owner) -> BTreeMap<String, String> {
    text_map([
        (labels::APP, labels::PRODUCT),
        (labels::INSTANCE, owner.name.as_str()),
    ])
}

fn text_map<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

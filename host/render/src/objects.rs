//! The Kubernetes objects of a resource: names, labels and defaults as the first operator chose
//! them, so that what it left running can be taken over.
//!
//! In: a checked resource, the image, what configures the server, and whom the objects belong to.
//! Out: every object, complete and byte for byte, and what should no longer be there; or what this
//! operator cannot do for the resource yet. A field that is asked for and not honoured is refused,
//! never dropped.

mod child;
mod config_map;
mod deployment;
mod environment;
mod pod;
mod service;
mod unsupported;
mod volume;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use llsd_api::checked::Checked;
use llsd_api::{API_VERSION_V1ALPHA2, KIND, Rejections, labels};

use crate::generate::Generated;

pub use child::{Child, Kind, Need, Retired, Write};
pub use config_map::config_map_name;
pub use service::service_url;

/// Label of every object: a digest of what we want it to be. An object that carries another one was
/// written for another resource, or by another release of the operator. It is no annotation, because
/// those of a Deployment count as a change of its spec.
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

/// What the objects of a resource are made from.
#[derive(Debug, Clone, Copy)]
pub struct ObjectInputs<'a> {
    /// The resource.
    pub checked: &'a Checked,
    /// The image that runs.
    pub image: &'a str,
    /// What configures the server.
    pub plan: &'a ConfigPlan,
    /// Changes with the secret values that the pods are given, and tells nothing about them.
    pub secrets_digest: Option<&'a str>,
    /// Whom the objects belong to.
    pub owner: &'a Owner,
}

/// Everything that should exist for a resource, in the order in which it is written: what the pods
/// need adds to what is there, then the pods change in one write, then what leads to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// What the pods need.
    pub before: Vec<Child>,
    /// The pods.
    pub deployment: Child,
    /// What leads to the pods, and watches over them.
    pub after: Vec<Child>,
    /// What an earlier resource may have asked for, and this one does not.
    pub retired: Vec<Retired>,
}

/// Builds every object of a resource.
pub fn objects(inputs: &ObjectInputs<'_>) -> Result<Desired, Rejections> {
    let &ObjectInputs {
        checked,
        image: _,
        plan,
        secrets_digest: _,
        owner,
    } = inputs;
    unsupported::refuse(checked, plan, owner)?;
    let account = ServiceAccount {
        metadata: metadata(owner, "-sa"),
        ..ServiceAccount::default()
    };
    let config_map = config_map::config_map(plan, owner)
        .map(|map| Child::new(Kind::ConfigMap, Write::Once, Need::Essential, &map));
    let claim = volume::claim(checked, owner).map(|claim| {
        Child::new(
            Kind::PersistentVolumeClaim,
            Write::Once,
            Need::Essential,
            &claim,
        )
    });
    let account = Child::new(
        Kind::ServiceAccount,
        Write::Converge,
        Need::Essential,
        &account,
    );
    Ok(Desired {
        before: config_map
            .into_iter()
            .chain(claim)
            .chain([account])
            .collect(),
        deployment: Child::new(
            Kind::Deployment,
            Write::Converge,
            Need::Essential,
            &deployment::deployment(inputs),
        ),
        after: vec![Child::new(
            Kind::Service,
            Write::Converge,
            Need::Essential,
            &service::service(checked, owner),
        )],
        retired: Vec::new(),
    })
}

impl Desired {
    /// All objects, in the order in which they are written.
    pub fn children(&self) -> impl Iterator<Item = &Child> {
        let Self {
            before,
            deployment,
            after,
            retired: _,
        } = self;
        before.iter().chain([deployment]).chain(after)
    }
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

//! The Kubernetes objects of a resource: names, labels and defaults as the first operator chose
//! them, so that what it left running can be taken over.
//!
//! In: a checked resource, the image, what configures the server, what the cluster offers, and whom
//! the objects belong to. Out: every object, complete and byte for byte, and what should no longer be
//! there.

mod autoscaler;
mod budget;
mod child;
mod config_map;
mod deployment;
mod derived;
mod environment;
mod exposure;
mod external;
mod network_policy;
pub(crate) mod pod;
mod quantity;
mod role_binding;
mod service;
pub(crate) mod tls;
mod trust;
mod volume;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use llsd_api::checked::{Checked, ConfigSource};
use llsd_api::{API_VERSION_V1ALPHA2, FieldPath, KIND, Rejection, Rejections, labels};

use crate::generate::Generated;
use crate::trust::TrustBundle;

pub use child::{Child, Kind, Need, Retired, Write};
pub use config_map::config_map_name;
pub use derived::DerivedValues;
pub use exposure::exposed_at;
pub use external::init_container;
pub use role_binding::ANY_UID;
pub use service::service_url;

const SERVICE_ACCOUNT_SUFFIX: &str = "-sa";
/// Annotation that changes with secret values and tells nothing about them.
pub const SECRETS_DIGEST: &str = "llamastack.io/secrets-digest";

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

/// What a cluster offers and objects depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Whether it has the API of Routes.
    pub has_routes: bool,
    /// Whether it has the ClusterRole [`ANY_UID`].
    pub has_any_uid: bool,
    /// Where the operator runs, which must reach the servers; absent: outside the cluster.
    pub operator_namespace: Option<String>,
}

/// What the objects of a resource are made from.
#[derive(Debug, Clone, Copy)]
pub struct ObjectInputs<'a> {
    /// The resource.
    pub checked: &'a Checked,
    /// The image that runs.
    pub image: &'a str,
    /// The user that the image names, where its own configuration was read.
    pub image_user: Option<&'a str>,
    /// What configures the server.
    pub plan: &'a ConfigPlan,
    /// Changes with the secret values that the pods are given, and tells nothing about them.
    pub secrets_digest: Option<&'a str>,
    /// Whom the objects belong to.
    pub owner: &'a Owner,
    /// What the cluster offers.
    pub cluster: &'a Cluster,
    /// Certificates that the server trusts.
    pub trust: Option<&'a TrustBundle>,
    /// What secret values were taken apart into.
    pub derived: &'a DerivedValues,
    /// Whether there is a network policy, where the operator's own switch decides; absent: the
    /// resource does.
    pub network_policy: Option<bool>,
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
    let &ObjectInputs { checked, owner, .. } = inputs;
    refuse_file_from_elsewhere(checked, owner)?;
    pod::refuse_collisions(inputs)?;
    let (once, converge) = (Write::Once, Write::Converge);
    let (essential, optional) = (Need::Essential, Need::Optional);
    let account = ServiceAccount {
        metadata: metadata(owner, SERVICE_ACCOUNT_SUFFIX),
        ..ServiceAccount::default()
    };
    let before = [
        config_map::config_map(inputs.plan, owner)
            .map(|one| Child::new(Kind::ConfigMap, once, essential, &one)),
        inputs.trust.map(|bundle| {
            let one = trust::config_map(bundle, owner);
            Child::new(Kind::ConfigMap, converge, essential, &one)
        }),
        derived::secret(inputs).map(|one| Child::new(Kind::Secret, converge, essential, &one)),
        volume::claim(checked, owner)
            .map(|one| Child::new(Kind::PersistentVolumeClaim, once, essential, &one)),
        Some(Child::new(
            Kind::ServiceAccount,
            converge,
            essential,
            &account,
        )),
        role_binding::role_binding(inputs)
            .map(|one| Child::new(Kind::RoleBinding, once, optional, &one)),
    ];
    let deployment = deployment::deployment(inputs);
    let service = service::service(checked, owner);
    let after = [
        Some(Child::new(Kind::Service, converge, essential, &service)),
        network_policy::network_policy(inputs)
            .map(|one| Child::new(Kind::NetworkPolicy, converge, optional, &one)),
        autoscaler::autoscaler(checked, owner)
            .map(|one| Child::new(Kind::HorizontalPodAutoscaler, converge, optional, &one)),
        budget::budget(checked, owner)
            .map(|one| Child::new(Kind::PodDisruptionBudget, converge, optional, &one)),
        exposure::exposure(inputs),
    ];
    let mut desired = Desired {
        before: before.into_iter().flatten().collect(),
        deployment: Child::new(Kind::Deployment, converge, essential, &deployment),
        after: after.into_iter().flatten().collect(),
        retired: Vec::new(),
    };
    desired.retired = retired(&desired, inputs);
    Ok(desired)
}

/// What an earlier resource may have asked for. Never a volume claim, which holds data, and never a
/// generated file, which has a name of its own.
fn retired(desired: &Desired, inputs: &ObjectInputs<'_>) -> Vec<Retired> {
    let mut candidates = vec![
        (Kind::NetworkPolicy, network_policy::SUFFIX),
        (Kind::HorizontalPodAutoscaler, autoscaler::SUFFIX),
        (Kind::PodDisruptionBudget, budget::SUFFIX),
        (Kind::Ingress, exposure::INGRESS_SUFFIX),
        (Kind::ConfigMap, trust::SUFFIX),
        (Kind::Secret, derived::SUFFIX),
    ];
    // Where there is no such API, there is nothing to delete either.
    if inputs.cluster.has_routes {
        candidates.push((Kind::Route, exposure::ROUTE_SUFFIX));
    }
    candidates
        .into_iter()
        .map(|(kind, suffix)| Retired {
            kind,
            name: format!("{}{suffix}", inputs.owner.name),
        })
        .filter(|retired| {
            !desired
                .children()
                .any(|child| child.kind == retired.kind && child.name == retired.name)
        })
        .collect()
}

/// Pods mount ConfigMaps of their own namespace only, and a copy made by the operator would show a
/// user what another namespace keeps to itself.
fn refuse_file_from_elsewhere(checked: &Checked, owner: &Owner) -> Result<(), Rejections> {
    match &checked.config_source {
        ConfigSource::Override {
            namespace: Some(namespace),
            ..
        } if *namespace != owner.namespace => Err(Rejections::from(Rejection {
            field: FieldPath::spec().at(&["overrideConfig", "configMapNamespace"]),
            problem: format!(
                "{namespace:?} is not the namespace of the resource, and its pods cannot read ConfigMaps of another"
            ),
            fix: "copy the ConfigMap to the namespace of the resource and remove the field"
                .to_owned(),
        })),
        _ => Ok(()),
    }
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

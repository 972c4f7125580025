//! Builds the Kubernetes objects of a resource.
//!
//! In: a checked resource, the image, the server configuration, the capabilities of the cluster, and
//! the owner. Out: every object, complete and byte for byte, and the objects that should no longer
//! exist. Names, labels and defaults are those of llama-stack-k8s-operator, so that its objects can
//! be adopted.

mod autoscaler;
mod ca_bundle;
mod child;
pub(crate) mod cluster_ca;
mod config_map;
mod deployment;
mod derived_secret;
mod disruption_budget;
mod environment;
mod exposure;
mod external_providers;
mod frozen;
mod gateway;
mod merge;
mod metadata;
mod network_policy;
mod pod;
mod pod_monitor;
mod pod_template;
mod privileges;
mod quantity;
mod role_binding;
mod scheduling;
mod secret_files;
mod security;
mod service;
pub(crate) mod tls;
mod volume_claim;
pub(crate) mod volumes;

use k8s_openapi::api::core::v1::ServiceAccount;
use llsd_api::checked::{Checked, ConfigSource};
use llsd_api::{Diagnostic, Diagnostics, FieldPath};
use serde::{Deserialize, Serialize};

use crate::ca_bundle::TrustedCa;
use crate::generate::Generated;
use crate::server_facts::ServerFacts;
use metadata::metadata;

pub use ca_bundle::{
    BACKUP_SUFFIX as CA_BUNDLE_BACKUP_SUFFIX, KEY as CA_BUNDLE_KEY, SUFFIX as CA_BUNDLE_SUFFIX,
    ca_bundle_backup,
};
pub use child::{Child, Kind, Need, Retired, Write};
pub use config_map::{config_map_name, is_generated_config_map};
pub use derived_secret::DerivedValues;
pub(crate) use environment::{CA_VARIABLE, OPERATOR_VARIABLES};
pub use exposure::exposed_url;
pub use external_providers::init_container_name;
pub use frozen::FrozenObjects;
pub use gateway::{GatewayApi, RouteAcceptance, route_acceptance};
pub use metadata::pod_selector;
pub use privileges::{Privileges, denied_privileges};
pub use quantity::is_less as is_smaller_quantity;
pub use role_binding::ANY_UID;
pub use service::{SUFFIX as SERVICE_SUFFIX, service_url};
pub use volume_claim::SUFFIX as VOLUME_CLAIM_SUFFIX;

const SERVICE_ACCOUNT_SUFFIX: &str = "-sa";

/// Annotation with a keyed digest of secret values. It changes when they change, and reveals nothing
/// about them.
pub const SECRETS_DIGEST: &str = "llamastack.io/secrets-digest";

/// Label of every object: a digest of its desired state. An object with another digest was written
/// for an earlier state of the resource, or by another release of the operator. It is a label and not
/// an annotation, because a changed annotation of a Deployment counts as a change of its spec.
pub const DESIRED_DIGEST: &str = "llamastack.io/desired-digest";

/// The resource that owns the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Namespace of the resource, and of every object.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    /// Its uid. A resource that was deleted and created again is another owner.
    pub uid: String,
    /// The label `app` of the pods.
    pub pod_app: &'static str,
}

/// The source of the server configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ConfigPlan {
    /// The operator generates the file.
    Generated(Box<Generated>),
    /// The user provides the file.
    Override {
        /// ConfigMap with the file in its key `config.yaml`.
        config_map: String,
        /// Digest of the file. The pods are replaced when it changes.
        digest: String,
    },
    /// The server uses the file in the image.
    DistributionDefault,
}

/// The capabilities of a cluster that the objects depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Whether it serves the Route API.
    pub has_routes: bool,
    /// Whether it serves PodMonitors, the API of the Prometheus operator.
    pub has_pod_monitors: bool,
    /// What it serves of the Gateway API.
    pub gateway_api: GatewayApi,
    /// Whether it has the ClusterRole [`ANY_UID`].
    pub has_any_uid: bool,
    /// Namespace of the operator, which must be able to connect to the servers. `None`: the operator
    /// runs outside the cluster.
    pub operator_namespace: Option<String>,
}

/// Everything that the objects of a resource are built from.
#[derive(Debug, Clone, Copy)]
pub struct ObjectInputs<'a> {
    /// The resource.
    pub checked: &'a Checked,
    /// The server image.
    pub image: &'a str,
    /// What is known about the server.
    pub server: &'a ServerFacts,
    /// The source of the server configuration.
    pub plan: &'a ConfigPlan,
    /// Keyed digest of the secret values that the pods use.
    pub secrets_digest: Option<&'a str>,
    /// The owner of the objects.
    pub owner: &'a Owner,
    /// The capabilities of the cluster.
    pub cluster: &'a Cluster,
    /// CA certificates that the server trusts.
    pub ca_bundle: Option<&'a TrustedCa>,
    /// Values that were extracted from secret values.
    pub derived: &'a DerivedValues,
    /// Whether to create a NetworkPolicy, if the operator's settings decide. `None`: the resource
    /// decides.
    pub network_policy: Option<bool>,
    /// Whether the installer lets the pods of this namespace run as any user on OpenShift.
    pub allows_any_uid: bool,
    /// Whether the installer lets the pods of this namespace have privileges on their nodes.
    pub allows_privileged_pods: bool,
    /// Privileges of the overrides that the pods had before the operator took the resource over.
    pub kept_privileges: &'a Privileges,
}

impl ObjectInputs<'_> {
    /// Whether the cluster restricts the users and groups of the pods: OpenShift, in a namespace for
    /// which the installer did not allow [`ANY_UID`].
    fn restricts_users(&self) -> bool {
        self.cluster.has_any_uid && !self.allows_any_uid
    }
}

/// The desired objects of a resource, in the order in which they are applied: first what the pods
/// need and what restricts access to them, then the pods in one write, then what routes traffic to
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// Objects that the pods need, and the NetworkPolicy.
    pub before: Vec<Child>,
    /// The pods.
    pub deployment: Child,
    /// Objects that route traffic to the pods, scale them or protect them from eviction.
    pub after: Vec<Child>,
    /// Objects that an earlier state of the resource may have created, and that must be deleted.
    pub retired: Vec<Retired>,
}

impl Desired {
    /// All objects, in the order in which they are applied.
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

/// Builds every object of a resource.
pub fn build_objects(inputs: &ObjectInputs<'_>) -> Result<Desired, Diagnostics> {
    check_config_namespace(inputs.checked, inputs.owner)?;
    volumes::check_collisions(inputs)?;
    check_privileges(inputs)?;
    pod_template::check_collisions(inputs)?;
    gateway::check(inputs).map_or(Ok(()), |problem| Err(Diagnostics::from(problem)))?;
    let deployment = deployment::deployment(inputs);
    let mut desired = Desired {
        before: before_pods(inputs),
        deployment: Child::new(
            Kind::Deployment,
            Write::Converge,
            Need::Essential,
            &deployment,
        ),
        after: after_pods(inputs),
        retired: Vec::new(),
    };
    desired.retired = retired(&desired, inputs);
    Ok(desired)
}

/// The objects that the pods need, and the NetworkPolicy.
fn before_pods(inputs: &ObjectInputs<'_>) -> Vec<Child> {
    let &ObjectInputs { checked, owner, .. } = inputs;
    let (once, grow, converge) = (Write::Once, Write::Grow, Write::Converge);
    let (essential, optional) = (Need::Essential, Need::Optional);
    let account = ServiceAccount {
        metadata: metadata(owner, SERVICE_ACCOUNT_SUFFIX),
        ..ServiceAccount::default()
    };
    let children = [
        config_map::config_map(inputs.plan, owner)
            .map(|one| Child::new(Kind::ConfigMap, once, essential, &one)),
        inputs.ca_bundle.and_then(|trusted| {
            let one = ca_bundle::config_map(trusted.bundle.as_ref()?, owner);
            Some(Child::new(Kind::ConfigMap, converge, essential, &one))
        }),
        derived_secret::secret(inputs)
            .map(|one| Child::new(Kind::Secret, converge, essential, &one)),
        volume_claim::claim(checked, owner)
            .map(|one| Child::new(Kind::PersistentVolumeClaim, grow, essential, &one)),
        Some(Child::new(
            Kind::ServiceAccount,
            converge,
            essential,
            &account,
        )),
        role_binding::role_binding(inputs)
            .map(|one| Child::new(Kind::RoleBinding, once, optional, &one)),
        // Without its policy a server would accept connections from everywhere.
        network_policy::network_policy(inputs)
            .map(|one| Child::new(Kind::NetworkPolicy, converge, essential, &one)),
    ];
    children.into_iter().flatten().collect()
}

/// The objects that route traffic to the pods, scale them or protect them from eviction.
fn after_pods(inputs: &ObjectInputs<'_>) -> Vec<Child> {
    let &ObjectInputs { checked, owner, .. } = inputs;
    let (converge, optional) = (Write::Converge, Need::Optional);
    let service = service::service(checked, owner);
    let children = [
        Some(Child::new(
            Kind::Service,
            converge,
            Need::Essential,
            &service,
        )),
        autoscaler::autoscaler(checked, owner)
            .map(|one| Child::new(Kind::HorizontalPodAutoscaler, converge, optional, &one)),
        disruption_budget::disruption_budget(checked, owner)
            .map(|one| Child::new(Kind::PodDisruptionBudget, converge, optional, &one)),
        pod_monitor::pod_monitor(inputs),
    ];
    let children = children.into_iter().flatten();
    children.chain(exposure::exposure(inputs)).collect()
}

/// The objects that an earlier state of the resource may have created. Never includes a volume claim,
/// which holds data, or a generated ConfigMap, whose name depends on its content.
fn retired(desired: &Desired, inputs: &ObjectInputs<'_>) -> Vec<Retired> {
    let candidates = [
        (Kind::NetworkPolicy, network_policy::SUFFIX),
        (Kind::HorizontalPodAutoscaler, autoscaler::SUFFIX),
        (Kind::PodDisruptionBudget, disruption_budget::SUFFIX),
        (Kind::Ingress, exposure::INGRESS_SUFFIX),
        (Kind::ConfigMap, ca_bundle::SUFFIX),
        (Kind::ConfigMap, ca_bundle::BACKUP_SUFFIX),
        (Kind::Secret, derived_secret::SUFFIX),
        (Kind::Route, exposure::ROUTE_SUFFIX),
        (Kind::HTTPRoute, gateway::ROUTE_SUFFIX),
        (Kind::TLSRoute, gateway::ROUTE_SUFFIX),
        (Kind::BackendTLSPolicy, gateway::POLICY_SUFFIX),
        (Kind::RoleBinding, role_binding::SUFFIX),
        (Kind::PodMonitor, pod_monitor::SUFFIX),
    ];
    candidates
        .into_iter()
        // A cluster that does not serve a kind has no object of it to delete.
        .filter(|(kind, _)| kind.is_served(inputs.cluster))
        // A ConfigMap of certificates that are not at hand stays as it is.
        .filter(|(kind, suffix)| {
            let is_ca_bundle = [ca_bundle::SUFFIX, ca_bundle::BACKUP_SUFFIX].contains(suffix);
            *kind != Kind::ConfigMap || !is_ca_bundle || inputs.ca_bundle.is_none()
        })
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

/// Rejects privileges that the installer did not allow.
fn check_privileges(inputs: &ObjectInputs<'_>) -> Result<(), Diagnostics> {
    if inputs.allows_privileged_pods {
        return Ok(());
    }
    denied_privileges(inputs.checked, inputs.owner, inputs.kept_privileges).map_or(Ok(()), Err)
}

/// Rejects a ConfigMap in another namespace. Pods can mount only ConfigMaps of their own namespace,
/// and a copy made by the operator would let a user read another namespace.
fn check_config_namespace(checked: &Checked, owner: &Owner) -> Result<(), Diagnostics> {
    match &checked.config_source {
        ConfigSource::Override {
            namespace: Some(namespace),
            ..
        } if *namespace != owner.namespace => Err(Diagnostics::from(Diagnostic::error(
            FieldPath::spec().at(&["overrideConfig", "configMapNamespace"]),
            format!(
                "must be the namespace of the resource, not {namespace:?}, because pods cannot mount ConfigMaps of another namespace"
            ),
            "copy the ConfigMap to the namespace of the resource and remove the field",
        ))),
        _ => Ok(()),
    }
}

//! A resolution: what the objects of a resource were built from, and the objects.

use llsd_api::checked::Checked;
use llsd_api::{Distribution, check};
use llsd_render::objects::{ConfigPlan, FrozenObjects};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reconcile::gather::Gathered;

/// What the objects of a resource were built from, and the objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resolution {
    /// The author's inputs that this resolution answers.
    pub(crate) author: AuthorInputs,
    /// The spec that it was made for. After an undo, that is an older one.
    pub(crate) spec: Value,
    pub(crate) gathered: Gathered,
    pub(crate) plan: ConfigPlan,
    /// The `SchemaPlugin` whose component generated the configuration; `None` for a built-in adapter.
    #[serde(default)]
    pub(crate) schema_plugin: Option<String>,
    /// Keyed digest of the secret values.
    pub(crate) secrets: Option<String>,
    /// Digest of all certificates that the server trusts.
    pub(crate) ca: Option<String>,
    /// Digest of those of the platform.
    pub(crate) platform_ca: Option<String>,
    pub(crate) objects: FrozenObjects,
    /// The release of the operator that made it.
    pub(crate) operator_version: String,
    /// Whether rollouts leave the resource alone, because someone went back to this resolution, or a
    /// rollout failed for it.
    #[serde(default)]
    pub(crate) is_held: bool,
}

/// The author's inputs, except secret values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthorInputs {
    /// The generation of the spec. Unlike a digest of the spec, it does not change when a new release
    /// of the API adds a field with a default.
    pub(crate) generation: Option<i64>,
    /// Digest of the override or base configuration in a ConfigMap.
    pub(crate) file: Option<String>,
    /// Digest of the certificates that the resource names.
    pub(crate) ca: Option<String>,
}

impl Resolution {
    /// Whether another resolution has the same inputs and objects.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.operator_version.clone_from(&self.operator_version);
        other.gathered.warnings.clone_from(&self.gathered.warnings);
        if let (ConfigPlan::Generated(mine), ConfigPlan::Generated(other)) =
            (&self.plan, &mut other.plan)
        {
            // These are not stored.
            other.config.clone_from(&mine.config);
            other.skipped.clone_from(&mine.skipped);
        }
        *self == other
    }

    /// The spec that it was made for, checked; `None` if this release rejects it. `current` is the
    /// current spec, which most resolutions were made for.
    pub(crate) fn checked(&self, cr: &Distribution, current: &Checked) -> Option<Checked> {
        if serde_json::to_value(&cr.spec).is_ok_and(|spec| spec == self.spec) {
            return Some(current.clone());
        }
        let distribution = Distribution {
            metadata: cr.metadata.clone(),
            spec: serde_json::from_value(self.spec.clone()).ok()?,
            status: None,
        };
        check(&distribution).ok()
    }
}

#[cfg(test)]
impl Resolution {
    /// A resolution without a generated configuration.
    pub(crate) fn example() -> Self {
        use llsd_render::objects::{
            Cluster, DerivedValues, ObjectInputs, Owner, Privileges, build_objects,
        };
        let spec = serde_json::json!({"distribution": {"image": "acme/stack:1"}});
        let document = serde_json::json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"}, "spec": spec,
        });
        let checked = llsd_api::check_document(document)
            .result
            .expect("a valid resource");
        let owner = Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        };
        let desired = build_objects(&ObjectInputs {
            checked: &checked,
            image: "acme/stack:1",
            server: &llsd_render::ServerFacts::default(),
            plan: &ConfigPlan::DistributionDefault,
            secrets_digest: None,
            owner: &owner,
            cluster: &Cluster::default(),
            ca_bundle: None,
            derived: &DerivedValues::default(),
            network_policy: None,
            allows_any_uid: false,
            allows_privileged_pods: false,
            kept_privileges: &Privileges::default(),
        });
        Self {
            author: AuthorInputs {
                generation: Some(3),
                ..AuthorInputs::default()
            },
            spec,
            gathered: Gathered {
                image: "acme/stack:1".to_owned(),
                source: crate::reconcile::gather::Source::DistributionDefault,
                facts: None,
                server: llsd_render::ServerFacts::default(),
                packages: std::collections::BTreeMap::new(),
                network_policy: None,
                allows_any_uid: false,
                allows_privileged_pods: false,
                kept_privileges: Privileges::default(),
                has_ca_bundle: false,
                warnings: Vec::new(),
            },
            plan: ConfigPlan::DistributionDefault,
            schema_plugin: None,
            secrets: None,
            ca: None,
            platform_ca: None,
            objects: FrozenObjects::of(&desired.expect("objects")),
            operator_version: "1".to_owned(),
            is_held: false,
        }
    }
}

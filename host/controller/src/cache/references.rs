//! An index of what each resource refers to, so that a change of an object triggers the resources
//! that use it.
//!
//! Objects need no labels: every reconciliation records what its resource refers to. A resource
//! that is not recorded yet has its first reconciliation ahead of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use llsd_api::checked::{Checked, ConfigSource, ServerSource};
use llsd_render::objects::Owner;
use parking_lot::Mutex;

use super::{PLATFORM_BUNDLE, bundle_namespace};

/// Something that a resource depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Referent {
    Secret {
        namespace: String,
        name: String,
    },
    ConfigMap {
        namespace: String,
        name: String,
    },
    /// An entry of the operator's list of distributions.
    Distribution(String),
    /// The operator's `enableNetworkPolicy` flag.
    NetworkPolicySwitch,
    /// The operator's registry mirrors.
    Mirrors,
    /// What the operator's settings allow the pods of a namespace: any user on OpenShift, and privileges.
    PodPermissions {
        namespace: String,
    },
    /// How existing resources follow what the installer changes.
    RolloutSettings,
}

/// Namespace and name of a resource.
type Resource = (String, String);

/// The index, in both directions.
#[derive(Debug, Default)]
pub(crate) struct References(Mutex<Index>);

/// Each resource and each referent is in memory once, because most resources refer to the same few.
#[derive(Debug, Default)]
struct Index {
    by_resource: BTreeMap<Arc<Resource>, Recorded>,
    by_referent: BTreeMap<Arc<Referent>, BTreeSet<Arc<Resource>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Recorded {
    /// Stated in the spec.
    stated: BTreeSet<Arc<Referent>>,
    /// Found while its images were read.
    found: BTreeSet<Arc<Referent>>,
}

impl References {
    /// Records what the spec of a resource refers to, and replaces the previous record.
    pub(crate) fn record(&self, owner: &Owner, checked: &Checked) {
        let stated = stated(owner, checked);
        let mut index = self.0.lock();
        let stated = index.shared(stated);
        index.change(owner, |recorded| recorded.stated = stated);
    }

    /// Records the pull secrets that were tried for the images of a resource.
    pub(crate) fn record_pull_secrets(&self, owner: &Owner, names: Vec<String>) {
        let secret = |name| Referent::Secret {
            namespace: owner.namespace.clone(),
            name,
        };
        let mut index = self.0.lock();
        let found = index.shared(names.into_iter().map(secret));
        index.change(owner, |recorded| recorded.found = found);
    }

    /// The resources that refer to a referent.
    pub(crate) fn referrers(&self, referent: &Referent) -> Vec<Resource> {
        let index = self.0.lock();
        let resources = index.by_referent.get(referent).into_iter().flatten();
        resources
            .map(|resource| Resource::clone(resource))
            .collect()
    }

    /// Every referent of any resource.
    pub(crate) fn all(&self) -> Vec<Referent> {
        let index = self.0.lock();
        let referents = index.by_referent.keys();
        referents
            .map(|referent| Referent::clone(referent))
            .collect()
    }

    /// Removes a deleted resource from the index.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let resource = (namespace.to_owned(), name.to_owned());
        self.0.lock().remove(&resource);
    }
}

impl Index {
    /// The referents, as they are in memory already.
    fn shared(&self, referents: impl IntoIterator<Item = Referent>) -> BTreeSet<Arc<Referent>> {
        let shared = |referent: Referent| match self.by_referent.get_key_value(&referent) {
            Some((known, _)) => known.clone(),
            None => Arc::new(referent),
        };
        referents.into_iter().map(shared).collect()
    }

    fn change(&mut self, owner: &Owner, change: impl FnOnce(&mut Recorded)) {
        let resource = (owner.namespace.clone(), owner.name.clone());
        let before = self.by_resource.get(&resource);
        let mut recorded = before.cloned().unwrap_or_default();
        change(&mut recorded);
        if before == Some(&recorded) {
            return;
        }
        self.remove(&resource);
        let resource = Arc::new(resource);
        for referent in recorded.stated.iter().chain(&recorded.found) {
            let referrers = self.by_referent.entry(referent.clone()).or_default();
            referrers.insert(resource.clone());
        }
        self.by_resource.insert(resource, recorded);
    }

    fn remove(&mut self, resource: &Resource) {
        let recorded = self.by_resource.remove(resource).unwrap_or_default();
        for referent in recorded.stated.iter().chain(&recorded.found) {
            if let Some(referrers) = self.by_referent.get_mut(referent) {
                referrers.remove(resource);
                if referrers.is_empty() {
                    self.by_referent.remove(referent);
                }
            }
        }
    }
}

fn stated(owner: &Owner, checked: &Checked) -> BTreeSet<Referent> {
    let namespace = &owner.namespace;
    let pull_secrets = checked
        .workload
        .overrides
        .image_pull_secrets
        .iter()
        .flatten();
    let of_overrides = checked.workload.override_references().into_iter();
    let exposed = checked.networking.expose.as_ref();
    let secrets = checked
        .references()
        .into_iter()
        .map(|one| one.secret.clone())
        .chain(of_overrides.map(|one| one.secret))
        .chain(
            checked
                .secret_files()
                .map(|one| one.reference.secret.clone()),
        )
        .chain(checked.networking.tls_secret.clone())
        .chain(exposed.and_then(|expose| expose.tls_secret_name.clone()))
        .chain(pull_secrets.map(|one| one.name.clone()))
        .map(|name| Referent::Secret {
            namespace: namespace.clone(),
            name,
        });
    let file = match &checked.config_source {
        ConfigSource::Override { config_map, .. } => Some(config_map.clone()),
        ConfigSource::Generated { base } => base.as_ref().map(|base| base.name.clone()),
        ConfigSource::DistributionDefault => None,
    };
    let bundle = checked.networking.ca_bundle.as_ref().map(|bundle| {
        let namespace = bundle_namespace(bundle, owner).to_owned();
        (namespace, bundle.config_map_name.clone())
    });
    let config_maps = [file, Some(PLATFORM_BUNDLE.to_owned())]
        .into_iter()
        .flatten()
        .map(|name| (namespace.clone(), name))
        .chain(bundle)
        .map(|(namespace, name)| Referent::ConfigMap { namespace, name });
    let distribution = match &checked.server {
        ServerSource::Named(name) => Some(Referent::Distribution(name.clone())),
        ServerSource::Image(_) => None,
    };
    let switch = checked
        .was_made_in_v1alpha1
        .then_some(Referent::NetworkPolicySwitch);
    secrets
        .chain(config_maps)
        .chain(distribution)
        .chain(switch)
        .chain([
            Referent::Mirrors,
            Referent::RolloutSettings,
            Referent::PodPermissions {
                namespace: namespace.clone(),
            },
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(spec: serde_json::Value) -> Checked {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo", "namespace": "ns"}, "spec": spec,
        });
        llsd_api::check_document(document)
            .result
            .expect("a valid resource")
    }

    fn owner() -> Owner {
        Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
            pod_app: llsd_api::labels::PRODUCT,
        }
    }

    fn secret(name: &str) -> Referent {
        Referent::Secret {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_bundle_of_another_namespace_and_secrets_of_every_field_are_found_by_reference() {
        let references = References::default();
        let spec = json!({
            "distribution": {"name": "starter"},
            "networking": {
                "tls": {"caBundle": {"configMapName": "ca", "configMapNamespace": "other"}},
                "expose": {"hostname": "a.example.com", "tlsSecretName": "ingress"},
            },
            "workload": {"overrides": {
                "imagePullSecrets": [{"name": "pull"}],
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
            }},
        });
        references.record(&owner(), &checked(spec));
        references.record_pull_secrets(&owner(), vec!["of-account".to_owned()]);
        let bundle = Referent::ConfigMap {
            namespace: "other".to_owned(),
            name: "ca".to_owned(),
        };
        let resource = vec![("ns".to_owned(), "demo".to_owned())];
        let starter = Referent::Distribution("starter".to_owned());
        let secrets = ["pull", "of-account", "env", "ingress"].map(secret);
        for referent in [bundle, starter].into_iter().chain(secrets) {
            assert_eq!(references.referrers(&referent), resource, "{referent:?}");
        }
    }

    #[test]
    fn a_new_record_replaces_the_old_one_and_forget_removes_everything() {
        let references = References::default();
        let with = |name: &str| {
            checked(json!({
                "distribution": {"name": "starter"},
                "workload": {"overrides": {"imagePullSecrets": [{"name": name}]}},
            }))
        };
        references.record(&owner(), &with("old"));
        references.record_pull_secrets(&owner(), vec!["of-account".to_owned()]);
        references.record(&owner(), &with("new"));
        assert!(references.referrers(&secret("old")).is_empty());
        assert_eq!(references.referrers(&secret("new")).len(), 1);
        assert_eq!(references.referrers(&secret("of-account")).len(), 1);
        references.forget("ns", "demo");
        assert!(references.all().is_empty());
    }
}

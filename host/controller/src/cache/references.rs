//! Which resource refers to what, so that a change of one wakes the other.
//!
//! Nobody has to label anything: a resource is recorded each time it is reconciled. Before that it
//! needs no waking, for it is going to be reconciled anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use llsd_api::checked::{Checked, ConfigSource, ServerSource};
use llsd_render::objects::Owner;

use crate::gather::trust::{self, PLATFORM_BUNDLE};

/// Something outside a resource that decides about it.
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
    /// A name of the operator's map of distributions.
    Distribution(String),
    /// The operator's switch for network policies.
    NetworkPolicySwitch,
    /// Where images are read from.
    Mirrors,
}

/// Namespace and name of a resource.
type Resource = (String, String);

/// What resources refer to, both ways.
#[derive(Debug, Default)]
pub(crate) struct References(Mutex<Index>);

#[derive(Debug, Default)]
struct Index {
    by_resource: BTreeMap<Resource, Known>,
    by_referent: BTreeMap<Referent, BTreeSet<Resource>>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the resource itself.
    stated: BTreeSet<Referent>,
    /// While its image was read.
    found: BTreeSet<Referent>,
}

impl References {
    /// Remembers what a resource refers to, instead of what it referred to before.
    pub(crate) fn record(&self, owner: &Owner, checked: &Checked) {
        let stated = stated(owner, checked);
        self.lock().change(owner, |known| known.stated = stated);
    }

    /// Remembers with which pull secrets the images of a resource were read, or not read.
    pub(crate) fn record_pull_secrets(&self, owner: &Owner, names: Vec<String>) {
        let secret = |name| Referent::Secret {
            namespace: owner.namespace.clone(),
            name,
        };
        let found = names.into_iter().map(secret).collect();
        self.lock().change(owner, |known| known.found = found);
    }

    /// The resources that refer to something.
    pub(crate) fn referrers(&self, referent: &Referent) -> Vec<Resource> {
        let index = self.lock();
        let resources = index.by_referent.get(referent).into_iter().flatten();
        resources.cloned().collect()
    }

    /// Everything that any resource refers to.
    pub(crate) fn all(&self) -> Vec<Referent> {
        self.lock().by_referent.keys().cloned().collect()
    }

    /// Forgets a resource that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let resource = (namespace.to_owned(), name.to_owned());
        self.lock().remove(&resource);
    }

    /// No reader or writer leaves the index half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn change(&mut self, owner: &Owner, change: impl FnOnce(&mut Known)) {
        let resource = (owner.namespace.clone(), owner.name.clone());
        let mut known = self.remove(&resource);
        change(&mut known);
        for referent in known.stated.iter().chain(&known.found) {
            let referrers = self.by_referent.entry(referent.clone()).or_default();
            referrers.insert(resource.clone());
        }
        self.by_resource.insert(resource, known);
    }

    fn remove(&mut self, resource: &Resource) -> Known {
        let known = self.by_resource.remove(resource).unwrap_or_default();
        for referent in known.stated.iter().chain(&known.found) {
            if let Some(referrers) = self.by_referent.get_mut(referent) {
                referrers.remove(resource);
                if referrers.is_empty() {
                    self.by_referent.remove(referent);
                }
            }
        }
        known
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
    let secrets = checked
        .references()
        .into_iter()
        .map(|one| one.secret.clone())
        .chain(checked.networking.tls_secret.clone())
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
        let namespace = trust::namespace(bundle, owner).to_owned();
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
        .chain([Referent::Mirrors])
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
        llsd_api::review(document).result.expect("a good resource")
    }

    fn owner() -> Owner {
        Owner {
            namespace: "ns".to_owned(),
            name: "demo".to_owned(),
            uid: "1".to_owned(),
        }
    }

    fn secret(name: &str) -> Referent {
        Referent::Secret {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_bundle_of_another_namespace_and_a_pull_secret_lead_to_the_resource() {
        let references = References::default();
        let spec = json!({
            "distribution": {"name": "starter"},
            "networking": {"tls": {"caBundle": {"configMapName": "ca", "configMapNamespace": "other"}}},
            "workload": {"overrides": {"imagePullSecrets": [{"name": "pull"}]}},
        });
        references.record(&owner(), &checked(spec));
        references.record_pull_secrets(&owner(), vec!["of-account".to_owned()]);
        let bundle = Referent::ConfigMap {
            namespace: "other".to_owned(),
            name: "ca".to_owned(),
        };
        let resource = vec![("ns".to_owned(), "demo".to_owned())];
        let starter = Referent::Distribution("starter".to_owned());
        for referent in [bundle, secret("pull"), secret("of-account"), starter] {
            assert_eq!(references.referrers(&referent), resource, "{referent:?}");
        }
    }

    #[test]
    fn a_new_record_replaces_the_old_one_and_nothing_is_left_of_a_resource_that_is_gone() {
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

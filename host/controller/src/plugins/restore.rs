//! Loads the plugins that the statuses of `SchemaPlugin`s name, from the components stored in the
//! cluster. Makes no request to a registry and writes nothing.

use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::LoadedPlugin;
use llsd_plugin::{Host, Plugin};
use llsd_registry::{Digest, ParseDigestError, ParseReferenceError, PullError, Reference, chain};
use llsd_render::adapter::Adapter;

use super::checked_spec::{CheckedSpec, Grant};
use super::fetch::load;
use super::stored_component::{self, StoredComponents};
use crate::active_plugins::{ActivePlugins, Slot};

/// Restores the plugins in use.
pub(crate) struct Restorer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) host: &'a Host,
    /// The operator's own namespace, where components are stored.
    pub(crate) namespace: &'a str,
    pub(crate) plugins: &'a ActivePlugins,
}

/// A version that is in use, but could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{reference}")]
pub(crate) struct RestoreError {
    reference: String,
    #[source]
    source: LoadStoredError,
}

/// Why a stored component was not loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadStoredError {
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
    #[error(transparent)]
    Digest(#[from] ParseDigestError),
    #[error(transparent)]
    Stored(#[from] stored_component::Error),
    #[error(transparent)]
    Load(#[from] PullError),
}

impl Restorer<'_> {
    /// Restores the plugins of every `SchemaPlugin`, or of those that a label selector matches.
    /// Returns the problems.
    pub(crate) async fn restore_all(
        &self,
        selector: Option<&str>,
    ) -> Result<Vec<String>, kube::Error> {
        let api = Api::<DeserializeGuard<SchemaPlugin>>::all(self.client.clone());
        let mut selected = ListParams::default();
        if let Some(selector) = selector {
            selected = selected.labels(selector);
        }
        let mut problems = Vec::new();
        for guarded in api.list(&selected).await? {
            let found = match &guarded.0 {
                Ok(resource) => self
                    .restore(resource)
                    .await
                    .iter()
                    .map(|one| chain(one))
                    .collect(),
                Err(invalid) => vec![invalid.error.clone()],
            };
            let name = guarded.name_any();
            let found = found
                .into_iter()
                .map(|problem| format!("SchemaPlugin {name:?}: {problem}"));
            problems.extend(found);
        }
        Ok(problems)
    }

    /// Makes the slots of one `SchemaPlugin` match its status. Returns the versions that could not be
    /// loaded.
    pub(super) async fn restore(&self, resource: &SchemaPlugin) -> Vec<RestoreError> {
        // A new `SchemaPlugin` has no plugin in use.
        let Some(status) = &resource.status else {
            return Vec::new();
        };
        let rollout = resource.spec.rollout.as_ref();
        let existing = rollout.and_then(|rollout| rollout.existing);
        self.plugins
            .set
            .set_existing(&resource.name_any(), existing.unwrap_or_default());
        // An invalid spec does not remove the plugins in use.
        let grant =
            CheckedSpec::new(&resource.spec).map_or_else(|_| Grant::default(), |spec| spec.grant);
        let name = resource.name_any();
        let slot = |proposed: Option<&str>| Slot {
            schema_plugin: name.clone(),
            proposed: proposed.map(str::to_owned),
        };
        let named = status.current.iter().map(|one| (slot(None), one));
        let proposed = status
            .proposals
            .iter()
            .filter_map(|one| one.plugin.as_ref());
        let proposed = proposed.map(|one| (slot(Some(&one.reference)), one));
        let wanted: Vec<_> = named.chain(proposed).collect();
        let stored = StoredComponents::new(self.client, self.namespace, resource);
        let set = &self.plugins.set;
        let mut errors = Vec::new();
        for (slot, known) in &wanted {
            let in_use = set.at(slot);
            if in_use.is_some_and(|plugin| plugin.digest() == known.component_digest) {
                continue;
            }
            match load_stored(self.host, &stored, known, &grant).await {
                Ok(plugin) => set.put(slot.clone(), plugin),
                Err(source) => errors.push(RestoreError {
                    reference: known.reference.clone(),
                    source,
                }),
            }
        }
        let slots: Vec<_> = wanted.into_iter().map(|(slot, _)| slot).collect();
        set.retain_slots(&name, &slots);
        errors
    }
}

/// Loads a version from its stored component.
pub(super) async fn load_stored(
    host: &Host,
    stored: &StoredComponents<'_>,
    known: &LoadedPlugin,
    grant: &Grant,
) -> Result<Plugin, LoadStoredError> {
    let reference = &known.reference;
    let loading = async {
        let named = reference.parse::<Reference>()?;
        let digest = known.component_digest.parse::<Digest>()?;
        let bytes = stored.read(&digest).await?;
        Ok(load(host, &named, &bytes, grant).await?)
    };
    let loaded: Result<Plugin, LoadStoredError> = loading.await;
    match &loaded {
        Ok(plugin) => {
            let digest = plugin.digest();
            tracing::info!(plugin = %reference, digest, "using the plugin that is stored in the cluster");
        }
        Err(error) => {
            let error = chain(error);
            tracing::warn!(plugin = %reference, error, "failed to load the plugin that is stored in the cluster");
        }
    }
    loaded
}

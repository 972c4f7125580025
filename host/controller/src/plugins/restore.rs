//! Uses what the replica that leads has put into use: what the statuses of `SchemaPlugin`s name, from the
//! bytes kept in the cluster. No registry is asked and nothing is written.

use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt};
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::LoadedPlugin;
use llsd_plugin::{Host, Plugin};
use llsd_registry::{Digest, ParseDigestError, ParseReferenceError, PullError, Reference, chain};
use llsd_render::adapter::Adapter;

use super::Plugins;
use super::fetch::load;
use super::kept::{self, Kept};
use super::set::Place;
use super::terms::{Grant, Terms};

/// What using it needs.
pub(crate) struct Adoption<'a> {
    pub(crate) client: &'a Client,
    pub(crate) host: &'a Host,
    /// The operator's own namespace, where bytes are kept.
    pub(crate) namespace: &'a str,
    pub(crate) plugins: &'a Plugins,
}

/// A version that is in use, and not here.
#[derive(Debug, thiserror::Error)]
#[error("{reference}")]
pub(crate) struct NotHad {
    reference: String,
    #[source]
    cause: NotLoaded,
}

/// Why a version was not loaded from the bytes kept in the cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLoaded {
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
    #[error(transparent)]
    Digest(#[from] ParseDigestError),
    #[error(transparent)]
    Kept(#[from] kept::Error),
    #[error(transparent)]
    Load(#[from] PullError),
}

impl Adoption<'_> {
    /// Uses what is in use for every `SchemaPlugin` of the cluster, or for those that a label selector
    /// chooses, once. Says what could not be had.
    pub(crate) async fn all(&self, selector: Option<&str>) -> Result<Vec<String>, kube::Error> {
        let api = Api::<DeserializeGuard<SchemaPlugin>>::all(self.client.clone());
        let mut ours = ListParams::default();
        if let Some(selector) = selector {
            ours = ours.labels(selector);
        }
        let mut problems = Vec::new();
        for guarded in api.list(&ours).await? {
            let found = match &guarded.0 {
                Ok(resource) => self
                    .one(resource)
                    .await
                    .iter()
                    .map(|one| chain(one))
                    .collect(),
                Err(invalid) => vec![invalid.error.clone()],
            };
            let name = guarded.name_any();
            let told = found
                .into_iter()
                .map(|why| format!("SchemaPlugin {name:?}: {why}"));
            problems.extend(told);
        }
        Ok(problems)
    }

    /// Uses what is in use for one `SchemaPlugin`, and nothing else. Gives what could not be had.
    pub(super) async fn one(&self, resource: &SchemaPlugin) -> Vec<NotHad> {
        // What nobody has looked at yet has nothing in use.
        let Some(status) = &resource.status else {
            return Vec::new();
        };
        // A spec that is refused takes nothing away from what came before it.
        let grant =
            Terms::of(&resource.spec).map_or_else(|_| Grant::default(), |terms| terms.grant);
        let name = resource.name_any();
        let place = |proposed: Option<&str>| Place {
            resource: name.clone(),
            proposed: proposed.map(str::to_owned),
        };
        let named = status.current.iter().map(|one| (place(None), one));
        let proposed = status
            .proposals
            .iter()
            .filter_map(|one| one.plugin.as_ref());
        let proposed = proposed.map(|one| (place(Some(&one.reference)), one));
        let wanted: Vec<_> = named.chain(proposed).collect();
        let kept = Kept::new(self.client, self.namespace, resource);
        let set = &self.plugins.set;
        let mut not_had = Vec::new();
        for (place, known) in &wanted {
            let in_use = set.at(place);
            if in_use.is_some_and(|plugin| plugin.digest() == known.component_digest) {
                continue;
            }
            match load_kept(self.host, &kept, known, &grant).await {
                Ok(plugin) => set.put(place.clone(), plugin),
                Err(cause) => not_had.push(NotHad {
                    reference: known.reference.clone(),
                    cause,
                }),
            }
        }
        let places: Vec<_> = wanted.into_iter().map(|(place, _)| place).collect();
        set.retain(&name, &places);
        not_had
    }
}

/// Loads a version from the bytes kept in the cluster.
pub(super) async fn load_kept(
    host: &Host,
    kept: &Kept<'_>,
    known: &LoadedPlugin,
    grant: &Grant,
) -> Result<Plugin, NotLoaded> {
    let reference = &known.reference;
    let loading = async {
        let named = reference.parse::<Reference>()?;
        let digest = known.component_digest.parse::<Digest>()?;
        let bytes = kept.read(&digest).await?;
        Ok(load(host, &named, &bytes, grant).await?)
    };
    let loaded: Result<Plugin, NotLoaded> = loading.await;
    match &loaded {
        Ok(plugin) => {
            let digest = plugin.digest();
            tracing::info!(plugin = %reference, digest, "the version kept in the cluster is in use");
        }
        Err(error) => {
            let error = chain(error);
            tracing::warn!(plugin = %reference, error, "the version in use is not to be had from the cluster");
        }
    }
    loaded
}

//! Computes what a reconciliation would change, without writing anything.
//!
//! In: the state of the operator, and a resource. Out: its configuration and its objects, before and
//! after. The steps are those of a reconciliation, with two differences: objects are read from the
//! API server, which computes each change with a dry run; and Secrets are neither read nor shown, so
//! that the digest of secret values is assumed to stay. A recorded resolution is reused as in a
//! reconciliation, unless the question is what an update or an undo would change.

mod live;
mod previewer;

use std::sync::Arc;

use llsd_api::{Distribution, check};
use llsd_render::objects::{ConfigPlan, Desired, Kind, Owner};
use llsd_render::{Receipt, yaml};
use serde_json::Value;

use crate::cache::{ClusterCache, ContentCache};
use crate::images::Images;
use crate::reconcile::gather::{Gathered, Source};
use crate::reconcile::resolve::{Current, Resolved, Resolver};
use crate::reconcile::revisions::{Resolution, Revisions};
use crate::reconcile::updates::{Now, Renewed, available};
use crate::reconcile::{Error, owner};
use live::LiveObjects;
pub use previewer::{PreviewOptions, Previewer};

/// What a reconciliation would change.
#[derive(Debug)]
pub struct Preview {
    /// The configuration; `None` if none is generated.
    pub config: Option<ConfigChange>,
    /// Every object except Secrets, in the order of writes.
    pub objects: Vec<ObjectChange>,
    /// The updates that are available, one line each.
    pub updates: Vec<String>,
}

/// What to preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A reconciliation.
    Reconcile,
    /// Taking every update that is available.
    Update,
    /// Going back to the previous revision.
    Undo,
    /// Generating the configuration again, from the recorded base configuration.
    Regeneration,
}

/// A base configuration, and the configuration that is generated from it.
#[derive(Debug)]
pub struct ConfigChange {
    /// The base configuration, as YAML.
    pub base: String,
    /// The generated configuration, as YAML.
    pub result: String,
    /// Which plugin generated it, from which input.
    pub receipt: Receipt,
}

/// One object, without fields that the API server maintains.
#[derive(Debug)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The live object; `None` if it would be created.
    pub before: Option<Value>,
    /// The object after the reconciliation; `None` if it would be deleted.
    pub after: Option<Value>,
}

/// Why a reconciliation would fail.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PreviewError(#[from] Error);

impl Previewer {
    /// Computes what a reconciliation of a resource would change.
    pub async fn preview(&self, cr: &Distribution) -> Result<Preview, PreviewError> {
        self.preview_change(cr, Change::Reconcile).await
    }

    /// Computes what a change of a resource would change.
    pub async fn preview_change(
        &self,
        cr: &Distribution,
        change: Change,
    ) -> Result<Preview, PreviewError> {
        Ok(preview(self, cr, change).await?)
    }
}

async fn preview(
    previewer: &Previewer,
    cr: &Distribution,
    change: Change,
) -> Result<Preview, Error> {
    let Previewer {
        client,
        plugins,
        settings,
        cluster,
        images,
        ..
    } = previewer;
    let checked = check(cr)?;
    let owner = owner(cr);
    // With an empty cache, everything is read from the API server.
    let cache = Arc::new(ClusterCache::new([]));
    let contents = ContentCache::new(client.clone(), cache.clone(), owner.namespace.clone());
    let revisions = Revisions::new(client.clone(), cache);
    revisions.list(&owner).await?;
    let status = cr.status.clone().unwrap_or_default();
    let resolver = Resolver {
        cr,
        owner: &owner,
        status: &status,
        contents: &contents,
        settings,
        images,
        plugins,
        author: &owner.namespace,
        tags: None,
        cluster,
        reads_secrets: false,
        gathered: &|_| {},
    };
    let current = resolver.observe(checked).await?;
    let live = LiveObjects {
        client,
        owner: &owner,
    };
    let previewed = Previewed {
        previewer,
        resolver: &resolver,
        current: &current,
        live: &live,
    };
    let Resolved {
        resolution,
        secrets,
    } = previewed.resolve(&revisions, change).await?;
    let updates = previewed.updates(&resolution);
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = resolver.desired(&current, &resolution, &secrets).await?;
    let mut objects = Vec::new();
    let children = before.into_iter().chain([deployment]).chain(after);
    for child in children.filter(|child| child.kind != Kind::Secret) {
        objects.push(live.change(child).await?);
    }
    for one in retired {
        objects.extend(live.deletion(one).await?);
    }
    let Resolution { gathered, plan, .. } = resolution;
    Ok(Preview {
        config: config_change(gathered, plan),
        objects,
        updates: updates.iter().map(ToString::to_string).collect(),
    })
}

/// What one preview is computed from.
struct Previewed<'a> {
    previewer: &'a Previewer,
    resolver: &'a Resolver<'a, Images>,
    current: &'a Current,
    live: &'a LiveObjects<'a>,
}

impl Previewed<'_> {
    /// The resolution that would be applied.
    async fn resolve(&self, revisions: &Revisions, change: Change) -> Result<Resolved, Error> {
        let (resolver, current) = (self.resolver, self.current);
        let owner: &Owner = resolver.owner;
        let Some(revision) = revisions.current(owner).await? else {
            let deployment = self.live.get(Kind::Deployment, &owner.name).await?;
            return resolver.first(current, deployment.as_ref()).await;
        };
        let recorded = match change {
            Change::Undo => revisions.previous(owner).await?.unwrap_or(revision),
            Change::Reconcile | Change::Update | Change::Regeneration => revision,
        };
        let recorded = recorded.resolution;
        let mut renewed = match change {
            Change::Update => Renewed::by(&self.updates(&recorded)),
            Change::Reconcile | Change::Undo | Change::Regeneration => Renewed::default(),
        };
        // An update also looks where the tag points now.
        renewed.image |= change == Change::Update && recorded.gathered.digest().is_some();
        let has_changed = current.author != recorded.author && change != Change::Undo;
        renewed.adapter |= change == Change::Regeneration;
        if has_changed || !renewed.is_empty() {
            return resolver.next(current, &recorded, renewed).await;
        }
        let assumed = recorded.secrets.as_deref();
        let checked = &current.checked;
        let secrets = resolver.secrets(checked, &recorded.plan, assumed).await?;
        Ok(Resolved {
            resolution: recorded,
            secrets,
        })
    }

    /// The updates that are available after a resolution.
    fn updates(&self, recorded: &Resolution) -> Vec<crate::reconcile::updates::Update> {
        let Current {
            checked,
            stated,
            ca,
            ..
        } = self.current;
        let before = recorded.checked(self.resolver.cr, checked);
        let objects = before.and_then(|before| self.resolver.rebuilt(&before, recorded));
        available(
            recorded,
            &Now {
                checked,
                stated,
                ca,
                plugins: &self.previewer.plugins,
                tag: None,
                objects: objects.as_ref(),
                settings: self.previewer.settings.rollouts(),
            },
        )
    }
}

fn config_change(gathered: Gathered, plan: ConfigPlan) -> Option<ConfigChange> {
    match (gathered.source, plan) {
        (Source::Base { config, .. }, ConfigPlan::Generated(generated)) => Some(ConfigChange {
            base: yaml::write(&config),
            result: generated.yaml,
            receipt: generated.receipt,
        }),
        _ => None,
    }
}

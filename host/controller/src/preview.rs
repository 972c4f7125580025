//! Computes what a reconciliation would change, without writing anything.
//!
//! In: the state of the operator, and a resource. Out: its configuration and its objects, before and
//! after. The steps are those of a reconciliation, with two differences: objects are read from the
//! API server, which computes each change with a dry run; and Secrets are neither read nor shown, so
//! that the digest of secret values is assumed to stay.

mod live;
mod previewer;

use std::sync::Arc;

use llsd_api::{Distribution, check};
use llsd_render::objects::{
    ConfigPlan, DerivedValues, Desired, Kind, ObjectInputs, SECRETS_DIGEST, build_objects,
};
use llsd_render::yaml;
use serde_json::Value;

use crate::cache::{ClusterCache, ContentCache};
use crate::reconcile::apply::Requested;
use crate::reconcile::gather::{Gathered, Source, gather};
use crate::reconcile::generate::generate;
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
}

/// A base configuration, and the configuration that is generated from it.
#[derive(Debug)]
pub struct ConfigChange {
    /// The base configuration, as YAML.
    pub base: String,
    /// The generated configuration, as YAML.
    pub result: String,
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
        Ok(preview(self, cr).await?)
    }
}

async fn preview(previewer: &Previewer, cr: &Distribution) -> Result<Preview, Error> {
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
    let contents = ContentCache::new(client.clone(), cache, owner.namespace.clone());
    let gathered = gather(&contents, settings, images, &checked, &owner).await?;
    let status = cr.status.clone().unwrap_or_default();
    let plan = generate(plugins, &owner.namespace, &checked, &gathered, &status).await?;
    let live = LiveObjects {
        client,
        owner: &owner,
        requested: Requested::of(&checked),
    };
    let deployment = live.get(Kind::Deployment, &owner.name).await?;
    let secrets_digest = deployment.as_ref().and_then(|live| {
        let annotations = &live.data["spec"]["template"]["metadata"]["annotations"];
        annotations[SECRETS_DIGEST].as_str()
    });
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = build_objects(&ObjectInputs {
        checked: &checked,
        image: &gathered.image,
        plan: &plan,
        secrets_digest,
        owner: &owner,
        server: &gathered.server,
        cluster,
        ca_bundle: gathered.ca_bundle.as_ref(),
        derived: &DerivedValues::default(),
        network_policy: gathered.network_policy,
        allows_any_uid: gathered.allows_any_uid,
    })?;
    let mut objects = Vec::new();
    let children = before.into_iter().chain([deployment]).chain(after);
    for child in children.filter(|child| child.kind != Kind::Secret) {
        objects.push(live.change(child).await?);
    }
    for one in retired {
        objects.extend(live.deletion(one).await?);
    }
    Ok(Preview {
        config: config_change(gathered, plan),
        objects,
    })
}

fn config_change(gathered: Gathered, plan: ConfigPlan) -> Option<ConfigChange> {
    match (gathered.source, plan) {
        (Source::Base { config, .. }, ConfigPlan::Generated(generated)) => Some(ConfigChange {
            base: yaml::write(&config),
            result: generated.yaml,
        }),
        _ => None,
    }
}

//! What a pass over a resource would do, for people to look at: nothing is written.
//!
//! In: what the operator works with, and a resource. Out: its configuration and every object, as they are
//! and as they would be. The steps are those of a pass but for two: objects are read from the API server,
//! which also says what it would make of each, and no Secret is read or shown. The pods' mark of their
//! secret values is taken to stay.

mod outlook;

use std::sync::Arc;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use llsd_api::checked::ServerSource;
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{Distribution, check};
use llsd_render::objects::{
    Child, ConfigPlan, DESIRED_DIGEST, DerivedValues, Desired, Kind, ObjectInputs, Owner, Retired,
    SECRETS_DIGEST, Write, objects,
};
use llsd_render::yaml;
use serde_json::Value;

use crate::apply;
use crate::expand::expand;
use crate::gather::{Contents, Gathered, Source, gather};
use crate::reconcile::{Error, owner};
use crate::view::View;

pub use outlook::{Outlook, OutlookSettings};

/// What a pass would do.
#[derive(Debug)]
pub struct Preview {
    /// The server's configuration; absent where none is generated.
    pub config: Option<ConfigChange>,
    /// Every object of the resource, in the order in which they are written.
    pub objects: Vec<ObjectChange>,
}

/// A generated configuration beside what it was made from.
#[derive(Debug)]
pub struct ConfigChange {
    /// The distribution's own, as YAML.
    pub base: String,
    /// The generated one, as YAML.
    pub result: String,
}

/// One object, without what the API server keeps for itself.
#[derive(Debug)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// As it is; absent when it would be created.
    pub before: Option<Value>,
    /// As it would be; absent when it would be deleted.
    pub after: Option<Value>,
}

/// Why a pass would come to nothing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PreviewError(#[from] Error);

impl Outlook {
    /// What the operator would do for a resource.
    pub async fn preview(&self, cr: &Distribution) -> Result<Preview, PreviewError> {
        Ok(look_ahead(self, cr).await?)
    }
}

async fn look_ahead(outlook: &Outlook, cr: &Distribution) -> Result<Preview, Error> {
    let Outlook {
        client,
        plugins,
        configuration,
        cluster,
        images,
        ..
    } = outlook;
    let checked = check(cr)?;
    let owner = owner(cr);
    // An empty view: everything is read anew.
    let view = Arc::new(View::new([]));
    let contents = Contents::new(client.clone(), view, owner.namespace.clone());
    let gathered = gather(&contents, configuration, images, &checked, &owner).await?;
    let plan = expand(plugins, &checked, &gathered).await?;
    let live = Live {
        client,
        owner: &owner,
        takes_any_release: matches!(checked.server, ServerSource::Named(_)),
    };
    let pods = live.find(Kind::Deployment, &owner.name).await?;
    let mark = pods.as_ref().and_then(|live| {
        let annotations = &live.data["spec"]["template"]["metadata"]["annotations"];
        annotations[SECRETS_DIGEST].as_str()
    });
    let Desired {
        before,
        deployment,
        after,
        retired,
    } = objects(&ObjectInputs {
        checked: &checked,
        image: &gathered.image,
        plan: &plan,
        secrets_digest: mark,
        owner: &owner,
        image_user: gathered.image_user(),
        cluster,
        trust: gathered.trust.as_ref(),
        derived: &DerivedValues::default(),
        network_policy: gathered.network_policy,
    })?;
    let mut objects = Vec::new();
    let children = before.into_iter().chain([deployment]).chain(after);
    for child in children.filter(|child| child.kind != Kind::Secret) {
        objects.push(live.change(child).await?);
    }
    for one in retired {
        objects.extend(live.removal(one).await?);
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

/// The cluster as it is, for one resource.
struct Live<'a> {
    client: &'a Client,
    owner: &'a Owner,
    takes_any_release: bool,
}

impl Live<'_> {
    async fn find(&self, kind: Kind, name: &str) -> Result<Option<DynamicObject>, Error> {
        let found = self.api(kind).get_opt(name).await;
        found.map_err(|error| failure("give", kind, name, error))
    }

    /// What the API server would make of an object.
    async fn change(&self, mut desired: Child) -> Result<ObjectChange, Error> {
        let live = self.find(desired.kind, &desired.name).await?;
        let after = match &live {
            Some(live) if desired.write == Write::Once => shown(live),
            // An object of somebody else is left alone.
            Some(live)
                if apply::fit(live, &mut desired, self.owner, self.takes_any_release).is_err() =>
            {
                shown(live)
            }
            Some(_) => {
                let parameters = PatchParams::apply(FIELD_MANAGER).force().dry_run();
                let patch = Patch::Apply(&desired.object);
                let api = self.api(desired.kind);
                let answer = api.patch(&desired.name, &parameters, &patch).await;
                shown(&answer.map_err(|error| failure("take", desired.kind, &desired.name, error))?)
            }
            None => without_bookkeeping(desired.object),
        };
        Ok(ObjectChange {
            kind: format!("{:?}", desired.kind),
            name: desired.name,
            before: live.as_ref().map(shown),
            after: Some(after),
        })
    }

    /// An object that would be deleted, if it is there and belongs to the resource.
    async fn removal(
        &self,
        Retired { kind, name }: Retired,
    ) -> Result<Option<ObjectChange>, Error> {
        let live = self.find(kind, &name).await?;
        let ours = live.filter(|live| apply::is_ours(live, self.owner));
        Ok(ours.map(|live| ObjectChange {
            kind: format!("{kind:?}"),
            name,
            before: Some(shown(&live)),
            after: None,
        }))
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.owner.namespace, &kind.resource())
    }
}

fn failure(verb: &'static str, kind: Kind, name: &str, error: kube::Error) -> Error {
    Error::Apply(apply::Error::Api {
        verb,
        kind,
        name: name.to_owned(),
        error: Box::new(error),
    })
}

fn shown(object: &DynamicObject) -> Value {
    without_bookkeeping(serde_json::to_value(object).unwrap_or_default())
}

/// Without what changes with every write, or says nothing to people.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.shift_remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in [
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "uid",
        ] {
            metadata.shift_remove(key);
        }
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.shift_remove(DESIRED_DIGEST);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bookkeeping_is_not_a_change() {
        let stored = json!({
            "kind": "Service",
            "metadata": { "name": "a", "uid": "1", "resourceVersion": "7", "labels": { DESIRED_DIGEST: "x", "app": "a" } },
            "spec": {},
            "status": {},
        });
        let shown = json!({ "kind": "Service", "metadata": { "name": "a", "labels": { "app": "a" } }, "spec": {} });
        assert_eq!(without_bookkeeping(stored), shown);
    }
}

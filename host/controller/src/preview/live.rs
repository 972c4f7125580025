//! The live objects of one resource, and how a reconciliation would change them.

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use llsd_api::labels::FIELD_MANAGER;
use llsd_render::objects::{Child, DESIRED_DIGEST, Kind, Owner, Retired, Write};
use serde_json::Value;

use super::ObjectChange;
use crate::reconcile::{Error, apply};

/// The live objects of one resource.
pub(super) struct LiveObjects<'a> {
    pub(super) client: &'a Client,
    pub(super) owner: &'a Owner,
}

impl LiveObjects<'_> {
    /// One object from the API server.
    pub(super) async fn get(&self, kind: Kind, name: &str) -> Result<Option<DynamicObject>, Error> {
        let found = self.api(kind).get_opt(name).await;
        found.map_err(|error| failure("get", kind, name, error))
    }

    /// How an object would change.
    pub(super) async fn change(&self, mut desired: Child) -> Result<ObjectChange, Error> {
        let live = self.get(desired.kind, &desired.name).await?;
        let after = match &live {
            Some(live) if desired.write == Write::Once => displayed(live),
            Some(live) if desired.write == Write::Grow => displayed(&apply::grown(live, &desired)),
            // An object of someone else is not changed.
            Some(live) if apply::preserve(live, &mut desired, self.owner).is_err() => {
                displayed(live)
            }
            Some(_) => {
                let parameters = PatchParams::apply(FIELD_MANAGER).force().dry_run();
                let patch = Patch::Apply(&desired.object);
                let api = self.api(desired.kind);
                let result = api.patch(&desired.name, &parameters, &patch).await;
                let failed = |error| failure("apply", desired.kind, &desired.name, error);
                displayed(&result.map_err(failed)?)
            }
            None => without_maintained_fields(desired.object),
        };
        Ok(ObjectChange {
            kind: format!("{:?}", desired.kind),
            name: desired.name,
            before: live.as_ref().map(displayed),
            after: Some(after),
        })
    }

    /// The deletion of an object; `None` if it does not exist or belongs to someone else.
    pub(super) async fn deletion(
        &self,
        Retired { kind, name }: Retired,
    ) -> Result<Option<ObjectChange>, Error> {
        let live = self.get(kind, &name).await?;
        let ours = live.filter(|live| apply::is_ours(live, self.owner));
        Ok(ours.map(|live| ObjectChange {
            kind: format!("{kind:?}"),
            name,
            before: Some(displayed(&live)),
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

fn displayed(object: &DynamicObject) -> Value {
    without_maintained_fields(serde_json::to_value(object).unwrap_or_default())
}

/// Removes the status and the fields that the API server or the operator maintains.
fn without_maintained_fields(mut object: Value) -> Value {
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
    fn maintained_fields_are_not_displayed() {
        let stored = json!({
            "kind": "Service",
            "metadata": { "name": "a", "uid": "1", "resourceVersion": "7", "labels": { DESIRED_DIGEST: "x", "app": "a" } },
            "spec": {},
            "status": {},
        });
        let displayed = json!({ "kind": "Service", "metadata": { "name": "a", "labels": { "app": "a" } }, "spec": {} });
        assert_eq!(without_maintained_fields(stored), displayed);
    }
}

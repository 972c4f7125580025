//! Says on the status how a reconciliation went, also after a failure.
//!
//! The status is written only when it says something new. What describes the running configuration
//! stays when a newer one could not be made.

mod conditions;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use llsd_api::checked::Checked;
use llsd_api::labels::FIELD_MANAGER;
use llsd_api::{API_VERSION_V1ALPHA2, Distribution, KIND};
use llsd_render::objects::{ConfigPlan, Owner};
use serde_json::json;

use crate::apply::Written;
use crate::gather::Gathered;
use crate::reconcile;

/// What a reconciliation came to.
pub(crate) struct Applied {
    checked: Checked,
    gathered: Gathered,
    plan: ConfigPlan,
    written: Written,
}

impl Applied {
    pub(crate) fn new(
        checked: Checked,
        gathered: Gathered,
        plan: ConfigPlan,
        written: Written,
    ) -> Self {
        Self {
            checked,
            gathered,
            plan,
            written,
        }
    }

    /// Whether every object is as it should be.
    pub(crate) fn is_complete(&self) -> bool {
        self.written.shortfalls.is_empty()
    }
}

/// Why the status was not written.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not {verb}: {error}")]
pub(crate) struct Error {
    verb: &'static str,
    error: Box<kube::Error>,
}

/// Writes the status, if it changed.
pub(crate) async fn report(
    client: &Client,
    cr: &Distribution,
    owner: &Owner,
    outcome: &Result<Applied, reconcile::Error>,
) -> Result<(), Error> {
    let failed = |verb| {
        move |error| Error {
            verb,
            error: Box::new(error),
        }
    };
    let running = match outcome {
        Ok(applied) => Some(applied.written.deployment.clone()),
        Err(_) => {
            let api = Api::<Deployment>::namespaced(client.clone(), &owner.namespace);
            let found = api
                .get_opt(&owner.name)
                .await
                .map_err(failed("give the Deployment"))?;
            found.filter(|one| {
                one.owner_references()
                    .iter()
                    .any(|one| one.uid == owner.uid)
            })
        }
    };
    let old = cr.status.clone().unwrap_or_default();
    let now = Timestamp::now();
    // Kubernetes writes whole seconds; with a fraction the status would never equal what is stored.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let new = status::status(
        &old,
        cr.metadata.generation,
        owner,
        outcome,
        running.as_ref(),
        now,
    );
    if cr.status.as_ref() == Some(&new) {
        return Ok(());
    }
    let document = json!({
        "apiVersion": API_VERSION_V1ALPHA2,
        "kind": KIND,
        // What was computed from an old copy must not be written over a newer one: its times would
        // move. The newer one is on its way through the watch.
        "metadata": { "name": owner.name, "resourceVersion": cr.metadata.resource_version },
        "status": new,
    });
    let api = Api::<Distribution>::namespaced(client.clone(), &owner.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    match api
        .patch_status(&owner.name, &parameters, &Patch::Apply(&document))
        .await
    {
        Ok(_) => Ok(()),
        // It was deleted or changed meanwhile: there is nobody to tell, or soon another pass.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Ok(()),
        Err(error) => Err(failed("take the status")(error)),
    }
}

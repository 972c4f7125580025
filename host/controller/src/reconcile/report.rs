//! Says how a reconciliation went, also after a failure: on the status, and by events.
//!
//! The status is written only when it says something new, and an event tells of a transition, never
//! of a pass. What describes the running configuration stays when a newer one could not be made.

pub(crate) mod conditions;
mod events;
mod external;
mod recent;
mod rollout;
mod running;
mod server;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use llsd_api::checked::Checked;
use llsd_api::labels::{self, FIELD_MANAGER};
use llsd_api::{API_VERSION_V1ALPHA2, Distribution, KIND};
use llsd_render::objects::{ConfigPlan, Kind, Owner, service_url};
use serde_json::json;

use crate::apply::{Written, is_ours};
use crate::context::Context;
use crate::gather::Gathered;
use crate::polling::Target;
use crate::reconcile;
use crate::view::{View, problem};
pub(crate) use events::{Events, Transition};
pub(crate) use recent::Recent;
use rollout::Rollout;

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

    /// The server to ask what it is, if one serves.
    fn server(&self, owner: &Owner, rollout: &Rollout) -> Option<Target> {
        (rollout.is_serving && rollout.ready > 0).then(|| Target {
            url: service_url(&self.checked, owner),
            tls_secret: self.checked.networking.tls_secret.clone(),
            // Until the last pod is replaced the server before it answers too.
            generation: rollout.generation.filter(|_| rollout.is_done),
        })
    }

    /// Whether every object is as it should be.
    pub(crate) fn is_complete(&self) -> bool {
        self.written.shortfalls.is_empty()
    }
}

/// Why the status was not written.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not take the status: {0}")]
pub(crate) struct Error(Box<kube::Error>);

/// What the cluster shows of a resource.
pub(crate) struct Seen {
    /// How far the pods are, if there is a Deployment and it is the resource's.
    rollout: Option<Rollout>,
    /// What the volume says of itself.
    claim: Option<Arc<DynamicObject>>,
    /// Whether the Service is there.
    has_service: bool,
    /// What keeps pods from running, a line each.
    problems: Vec<String>,
}

/// Writes the status, if it changed, and tells what changed.
pub(crate) async fn report(
    ctx: &Context,
    cr: &Distribution,
    owner: &Owner,
    outcome: &Result<Applied, reconcile::Error>,
) -> Result<(), Error> {
    let seen = Seen::of(&ctx.view, owner);
    let (old, version) = ctx.recent.newest(cr);
    let now = Timestamp::now();
    // Kubernetes writes whole seconds; with a fraction the status would never equal what is stored.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let heard = outcome.as_ref().ok().and_then(|applied| {
        let rollout = seen.rollout.as_ref();
        let server = rollout.and_then(|rollout| applied.server(owner, rollout));
        ctx.polls.follow(owner, server)
    });
    let new = status::status(&status::Facts {
        old: &old,
        generation: cr.metadata.generation,
        owner,
        outcome,
        seen: &seen,
        heard: heard.as_ref(),
        now,
    });
    if new == old {
        return Ok(());
    }
    let document = json!({
        "apiVersion": API_VERSION_V1ALPHA2,
        "kind": KIND,
        // What was computed from an old copy must not be written over a newer one: its times would
        // move. The newer one is on its way through the watch.
        "metadata": { "name": owner.name, "resourceVersion": version },
        "status": new,
    });
    let api = Api::<Distribution>::namespaced(ctx.client.clone(), &owner.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    match api
        .patch_status(&owner.name, &parameters, &Patch::Apply(&document))
        .await
    {
        Ok(written) => {
            ctx.recent.record(&written);
            ctx.events
                .tell(events::transitions(&old, &new), &cr.object_ref(&()))
                .await;
            Ok(())
        }
        // It was deleted or changed meanwhile: there is nobody to tell, or soon another pass.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Ok(()),
        Err(error) => Err(Error(Box::new(error))),
    }
}

impl Seen {
    fn of(view: &View, owner: &Owner) -> Self {
        let Owner {
            namespace, name, ..
        } = owner;
        let child = |kind, suffix: &str| {
            view.child(kind, namespace, &format!("{name}{suffix}"))
                .filter(|object| is_ours(object, owner))
        };
        let pods = view.pods.find(namespace, |pod| {
            pod.labels().get(labels::INSTANCE) == Some(name) && problem(pod).is_some()
        });
        let mut problems: Vec<String> = pods
            .iter()
            .filter_map(|pod| Some(format!("pod {:?}: {}", pod.name_any(), problem(pod)?)))
            .collect();
        problems.sort();
        Self {
            rollout: child(Kind::Deployment, "").map(|deployment| Rollout::of(&deployment)),
            claim: child(Kind::PersistentVolumeClaim, "-pvc"),
            has_service: child(Kind::Service, "-service").is_some(),
            problems,
        }
    }
}

//! One reconciliation of one resource.
//!
//! The steps, in order: check → gather → generate → resolve secrets → build objects → apply →
//! report. Check is `llsd_api::check` and build objects is `llsd_render::objects`; each of the others
//! is a module of this folder. All steps before apply only read, and report runs whatever happened:
//! a problem may stop a resource from changing, but it never changes what is running.
//!
//! Imports only `servers`, `settings`, `active_plugins`, `images`, `process` and `cache`.

pub(crate) mod apply;
mod context;
mod error;
pub(crate) mod gather;
pub(crate) mod generate;
pub(crate) mod report;
mod resolve_secrets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use llsd_api::checked::{Checked, ServerSource};
use llsd_api::{Distribution, check};
use llsd_render::objects::{Kind, ObjectInputs, Owner, build_objects};
use tracing::Instrument;

use crate::cache::UpstreamRunning;
use crate::images::{self, Puller};
use apply::{Target, apply};
pub(crate) use context::Context;
pub(crate) use error::Error;
use gather::{Gathered, gather};
use generate::generate;
use report::{Applied, report};
use resolve_secrets::resolve_secrets;

/// Requeue delay after a success: a safety net in case a watch misses a change.
const RESYNC: Duration = Duration::from_secs(3600);
/// Requeue delay while an object of someone else prevents a write. That object may not be watched.
const RECHECK: Duration = Duration::from_secs(60);
/// Requeue delay of a reconciliation that made way for new resources.
const SOON: Duration = Duration::from_millis(100);
/// The longest requeue delay while llama-stack-k8s-operator runs. It may release its Lease before the
/// Lease expires, and checking costs no request.
const LEASE_RECHECK: Duration = Duration::from_secs(5);

/// Reconciles one resource and reports the result in its status.
pub(crate) async fn reconcile(
    guarded: Arc<DeserializeGuard<Distribution>>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (guarded.namespace().unwrap_or_default(), guarded.name_any());
    let is_new = ctx
        .cache
        .child(Kind::Deployment, &namespace, &name)
        .is_none();
    let _permit = if is_new {
        ctx.priority.acquire_high().await
    } else {
        ctx.priority.acquire_normal().await
    };
    let started = Instant::now();
    let _guard = ctx.health.start(started);
    let result = run_steps(&guarded, &ctx).await;
    let outcome = result.as_ref().map_or_else(Error::outcome, |_| "done");
    ctx.metrics.count_reconcile(outcome, started.elapsed());
    match &result {
        Ok(_) => ctx.backoff.reset(&namespace, &name),
        Err(error) => {
            for code in error.rejection_codes() {
                ctx.metrics.count_rejection(code);
            }
        }
    }
    result
}

/// All steps, from check to report.
async fn run_steps(
    guarded: &DeserializeGuard<Distribution>,
    ctx: &Context,
) -> Result<Action, Error> {
    let cr = guarded
        .0
        .as_ref()
        .map_err(|invalid| Error::Unreadable(invalid.error.clone()))?;
    if cr.metadata.deletion_timestamp.is_some() {
        // The resource owns all of its objects, so the garbage collector deletes them.
        return Ok(Action::await_change());
    }
    let owner = owner(cr);
    let Some(outcome) = converge(cr, &owner, ctx).await.transpose() else {
        return Ok(Action::requeue(SOON));
    };
    report(ctx, cr, &owner, &outcome)
        .instrument(tracing::debug_span!("report"))
        .await?;
    outcome.map(|applied| {
        Action::requeue(if applied.is_complete() {
            RESYNC
        } else {
            RECHECK
        })
    })
}

/// The steps from check to apply. `None`: the Deployment is written, and the rest waits until other
/// new resources have their Deployments.
async fn converge(
    cr: &Distribution,
    owner: &Owner,
    ctx: &Context,
) -> Result<Option<Applied>, Error> {
    let checked = check(cr)?;
    if let Some(running) = ctx.cache.running_upstream(Timestamp::now()) {
        return Err(running.into());
    }
    let gathered = gather_recorded(ctx, &checked, owner)
        .instrument(tracing::debug_span!("gather"))
        .await?;
    let (status, _) = ctx.statuses.newest(cr);
    let plan = generate(&ctx.plugins, &checked, &gathered, &status)
        .instrument(tracing::debug_span!("generate"))
        .await?;
    let secrets = resolve_secrets(&ctx.contents, &checked, &plan, owner)
        .instrument(tracing::debug_span!("resolve_secrets"))
        .await?;
    let desired = tracing::debug_span!("build_objects").in_scope(|| {
        build_objects(&ObjectInputs {
            checked: &checked,
            image: &gathered.image,
            image_user: gathered.image_user(),
            plan: &plan,
            secrets_digest: secrets.digest.as_deref(),
            owner,
            cluster: &ctx.cluster,
            ca_bundle: gathered.ca_bundle.as_ref(),
            derived: &secrets.derived,
            network_policy: gathered.network_policy,
            allows_any_uid: gathered.allows_any_uid,
        })
    })?;
    let target = Target {
        client: &ctx.client,
        cache: &ctx.cache,
        priority: &ctx.priority,
        owner,
        allows_any_release: matches!(checked.server, ServerSource::Named(_)),
    };
    let written = apply(target, desired)
        .instrument(tracing::debug_span!("apply"))
        .await?;
    Ok(written.map(|written| Applied::new(checked, gathered, plan, written)))
}

/// The gather step. Also records what the resource refers to, which plugin its image proposes, and
/// how reading its image ended.
async fn gather_recorded(
    ctx: &Context,
    checked: &Checked,
    owner: &Owner,
) -> Result<Gathered, Error> {
    ctx.references.record(owner, checked);
    let settings = ctx.settings.get().await;
    let gathered = gather(&ctx.contents, &settings, &ctx.images, checked, owner).await;
    let puller = Puller::of(checked, &owner.namespace);
    ctx.references
        .record_pull_secrets(owner, ctx.images.pull_secrets(&puller));
    let image_read = match &gathered {
        Ok(gathered) => gathered.labels.as_ref().map(|_| "Read"),
        Err(error) => error.image().map(images::Error::reason),
    };
    if let Some(outcome) = image_read {
        ctx.metrics.count_image_read(outcome);
    }
    let gathered = gathered?;
    if let Some(plugin) = gathered.proposed_plugin() {
        ctx.plugins
            .proposals
            .record(&owner.namespace, &gathered.image, plugin);
    }
    Ok(gathered)
}

/// When to retry. A rejected spec waits for its author and a missing object for its creator; both are
/// watched. Everything else is retried with backoff.
pub(crate) fn error_policy(
    guarded: Arc<DeserializeGuard<Distribution>>,
    error: &Error,
    ctx: Arc<Context>,
) -> Action {
    let image = match error {
        Error::Gather(error) => error.image(),
        _ => None,
    };
    Action::requeue(match (error, image) {
        (Error::UpstreamRunning(running), _) => lease_delay(running, Timestamp::now()),
        // Registries are not watched.
        (_, Some(image)) => image.retry_after(),
        (error, None) if error.waits_for_change() => RESYNC,
        _ => {
            let namespace = guarded.namespace().unwrap_or_default();
            ctx.backoff.next_delay(&namespace, &guarded.name_any())
        }
    })
}

/// Time until the Lease of llama-stack-k8s-operator expires, at most [`LEASE_RECHECK`].
fn lease_delay(running: &UpstreamRunning, now: Timestamp) -> Duration {
    let left = running.until.duration_since(now);
    Duration::try_from(left)
        .unwrap_or_default()
        .clamp(Duration::from_secs(1), LEASE_RECHECK)
}

/// The owner of a resource's objects.
pub(crate) fn owner(cr: &Distribution) -> Owner {
    let metadata = &cr.metadata;
    Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

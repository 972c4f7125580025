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
mod decide;
mod error;
pub(crate) mod gather;
pub(crate) mod generate;
mod metadata_response;
pub(crate) mod report;
pub(crate) mod resolve;
mod resolve_secrets;
pub(crate) mod revisions;
pub(crate) mod rollouts;
pub(crate) mod tags;
pub(crate) mod updates;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use llsd_api::{Distribution, check, labels};
use llsd_render::objects::Owner;
use tracing::Instrument;

use crate::cache::{Priority, UpstreamRunning, WatchedResource, uptime};
use crate::images::Puller;
use apply::apply;
pub(crate) use context::Context;
use decide::{Decision, Pass};
pub(crate) use error::Error;
use gather::Gathered;
use report::{Applied, report};
use resolve::{Resolved, Resolver};

/// Requeue delay while an object of someone else prevents a write. That object may not be watched.
const RECHECK: Duration = Duration::from_secs(60);
/// The longest time for the steps from check to apply. They make a few requests to the API server and
/// call plugins with time limits of seconds; registries are read in the background.
const PASS_DEADLINE: Duration = Duration::from_secs(120);
/// The longest time for the report step.
const REPORT_DEADLINE: Duration = Duration::from_secs(30);
/// How long a resource waits for its image before its status says so. Most images take less.
const QUIET_WAIT: Duration = Duration::from_secs(2);
/// The longest requeue delay while llama-stack-k8s-operator runs. It may release its Lease before the
/// Lease expires, and checking costs no request.
const LEASE_RECHECK: Duration = Duration::from_secs(5);

/// Reconciles one resource and reports the result in its status.
pub(crate) async fn reconcile(
    watched: Arc<WatchedResource>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (watched.namespace().unwrap_or_default(), watched.name_any());
    let permit = match ctx.queue.granted(&namespace, &name) {
        Some(permit) => Some(permit),
        None => {
            if let Err(wait) = ctx.pace.take(&namespace, &name, Instant::now()) {
                return Ok(Action::requeue(wait));
            }
            let priority = priority(&watched);
            ctx.queue.take(&namespace, &name, priority).await
        }
    };
    let Some(_permit) = permit else {
        // The queue triggers the resource.
        return Ok(Action::await_change());
    };
    let _running = ctx.in_progress.start(&namespace, &name);
    let started = Instant::now();
    let _guard = ctx.health.start(started);
    // On the heap, because the futures of thousands of resources are without a permit.
    let result = Box::pin(without_panic(run_steps(&watched, &ctx))).await;
    let outcome = result.as_ref().map_or_else(Error::outcome, |_| "done");
    ctx.metrics.count_reconcile(outcome, started.elapsed());
    ctx.rollouts.see(&(namespace.clone(), name.clone()));
    match &result {
        Ok(_) => ctx.backoff.reset(&namespace, &name),
        Err(error) => {
            for code in error.rejection_codes() {
                ctx.metrics.count_rejection(code);
            }
            if error.waits_for_change() {
                ctx.rollouts.finish(&(namespace.clone(), name.clone()));
            }
        }
    }
    result
}

/// A panic ends the reconciliation of one resource, and not the operator.
async fn without_panic<T>(steps: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let result = AssertUnwindSafe(steps).catch_unwind().await;
    result.unwrap_or(Err(Error::Panicked))
}

/// A new or changed resource comes before those of its namespace that are checked again. After the report it
/// waits for its turn, even if it still has no Deployment.
fn priority(watched: &WatchedResource) -> Priority {
    match watched.is_reported() {
        true => Priority::Normal,
        false => Priority::High,
    }
}

/// All steps, from check to report.
async fn run_steps(watched: &WatchedResource, ctx: &Context) -> Result<Action, Error> {
    let cr = &watched.read().map_err(Error::Unreadable)?;
    if cr.metadata.deletion_timestamp.is_some() {
        // The resource owns all of its objects, so the garbage collector deletes them.
        return Ok(Action::await_change());
    }
    let owner = owner(cr);
    let outcome = tokio::time::timeout(PASS_DEADLINE, converge(cr, &owner, ctx)).await;
    let outcome = outcome.unwrap_or(Err(Error::Deadline(PASS_DEADLINE)));
    let waiting_since = outcome.as_ref().err().and_then(Error::waiting_since);
    if let Some(since) = waiting_since
        && let Some(left) = QUIET_WAIT.checked_sub(since.elapsed())
    {
        return Ok(Action::requeue(left));
    }
    let report = report(ctx, cr, &owner, &outcome).instrument(tracing::debug_span!("report"));
    tokio::time::timeout(REPORT_DEADLINE, report)
        .await
        .unwrap_or(Err(Error::Deadline(REPORT_DEADLINE)))?;
    if waiting_since.is_some() {
        // The end of the read triggers the resource.
        return Ok(Action::requeue(RECHECK));
    }
    let resource = (owner.namespace, owner.name);
    let time_left = ctx.rollouts.time_left(&resource, Instant::now());
    outcome.map(|applied| {
        let delay = (!applied.is_complete()).then_some(RECHECK);
        let delay = time_left.into_iter().chain(delay).min();
        delay.map_or_else(Action::await_change, Action::requeue)
    })
}

/// The steps from check to apply.
async fn converge(cr: &Distribution, owner: &Owner, ctx: &Context) -> Result<Applied, Error> {
    if cr.spec.paused == Some(true) {
        return Err(Error::Paused);
    }
    let checked = check(cr)?;
    if let Some(running) = ctx.cache.running_upstream(uptime()) {
        return Err(running.into());
    }
    ctx.references.record(owner, &checked);
    let settings = ctx.settings.get().await;
    let (status, _) = ctx.statuses.newest(cr);
    let puller = Puller::of(&checked, &owner.namespace);
    let gathered =
        |gathered: &Result<Gathered, gather::Error>| note_gathered(ctx, owner, &puller, gathered);
    let images = ctx.images.for_resource(owner);
    let resolver = Resolver {
        cr,
        owner,
        status: &status,
        contents: &ctx.contents,
        settings: &settings,
        images: &images,
        plugins: &ctx.plugins,
        author: ctx.author(owner),
        tags: Some(&ctx.tags),
        cluster: &ctx.cluster,
        reads_secrets: true,
        gathered: &gathered,
    };
    let current = resolver.observe(checked).await?;
    let pass = Pass {
        ctx,
        cr,
        owner,
        resolver: &resolver,
        current: &current,
    };
    let Decision {
        resolved: Resolved {
            resolution,
            secrets,
        },
        updates,
        setback,
    } = pass.decide().await?;
    note_image(ctx, owner, &puller, &resolution.gathered);
    let desired = resolver.desired(&current, &resolution, &secrets).await?;
    let written = apply(pass.target(), desired)
        .instrument(tracing::debug_span!("apply"))
        .await?;
    Ok(Applied {
        checked: current.checked,
        gathered: resolution.gathered,
        plan: resolution.plan,
        updates,
        setback,
        written,
        distributions: settings.distribution_images(),
    })
}

/// Records which pull secrets were tried, how reading an image ended, and what it proposes.
fn note_gathered(
    ctx: &Context,
    owner: &Owner,
    puller: &Puller,
    gathered: &Result<Gathered, gather::Error>,
) {
    ctx.references
        .record_pull_secrets(owner, ctx.images.pull_secrets(puller));
    let image_read = match gathered {
        Ok(gathered) => gathered.facts.as_ref().map(|_| "Read"),
        Err(error) => error.image().map(|error| error.cause.reason()),
    };
    if let Some(outcome) = image_read {
        ctx.metrics.count_image_read(outcome);
    }
    if let Ok(gathered) = gathered {
        note_image(ctx, owner, puller, gathered);
    }
}

/// Records which tag a resource uses, and which plugin its image proposes.
fn note_image(ctx: &Context, owner: &Owner, puller: &Puller, gathered: &Gathered) {
    if gathered.facts.is_some() {
        let resource = (owner.namespace.clone(), owner.name.clone());
        ctx.tags.register(&gathered.image, puller, &resource);
    }
    if let Some(plugin) = gathered.proposed_plugin() {
        ctx.plugins
            .proposals
            .record(&owner.namespace, &gathered.image, plugin);
    }
}

/// When to retry. A rejected spec waits for its author and a missing object for its creator; both are
/// watched. Everything else is retried with backoff.
pub(crate) fn error_policy(
    watched: Arc<WatchedResource>,
    error: &Error,
    ctx: Arc<Context>,
) -> Action {
    let image = match error {
        Error::Gather(error) => error.image(),
        _ => None,
    };
    Action::requeue(match (error, image) {
        (Error::UpstreamRunning(running), _) => lease_delay(running, uptime()),
        // Registries are not watched.
        (_, Some(image)) => image.retry_after,
        (error, None) if error.waits_for_change() => return Action::await_change(),
        _ => {
            let namespace = watched.namespace().unwrap_or_default();
            ctx.backoff.next_delay(&namespace, &watched.name_any())
        }
    })
}

/// Time until the Lease of llama-stack-k8s-operator expires, at most [`LEASE_RECHECK`].
fn lease_delay(running: &UpstreamRunning, now: Duration) -> Duration {
    let left = running.until.saturating_sub(now);
    left.clamp(Duration::from_secs(1), LEASE_RECHECK)
}

/// The owner of a resource's objects.
pub(crate) fn owner(cr: &Distribution) -> Owner {
    let metadata = &cr.metadata;
    Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        pod_app: labels::pod_app(cr.annotations()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_that_is_tried_again() {
        let steps = async {
            tokio::task::yield_now().await;
            std::panic::panic_any("a bug") as Result<(), Error>
        };
        let error = without_panic(steps).await.unwrap_err();
        assert!(matches!(error, Error::Panicked));
        assert!(!error.waits_for_change());
    }
}

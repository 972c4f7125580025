//! One pass over one resource.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use llsd_adapter_sdk::Severity;
use llsd_api::checked::ServerSource;
use llsd_api::{Distribution, Rejections, check};
use llsd_render::Refusal;
use llsd_render::objects::{Kind, ObjectInputs, Owner, objects};

use crate::apply::{self, Target, apply};
use crate::context::Context;
use crate::expand::{self, expand};
use crate::gather::secrets::{self, resolve_secrets};
use crate::gather::{self, gather};
use crate::images::{self, Puller};
use crate::report::{self, Applied, report};
use crate::view::FirstOperator;

/// The net below the watches.
const RESYNC: Duration = Duration::from_secs(3600);
/// For an object of somebody else that stands in the way: no watch tells when it goes.
const RECHECK: Duration = Duration::from_secs(60);

/// For what was put off.
const SOON: Duration = Duration::from_millis(100);

/// For the first operator's Lease, which may be given back before it ends. Looking costs no request.
const LEASE_RECHECK: Duration = Duration::from_secs(5);

/// Why one reconciliation stopped: a variant per step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the resource could not be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    FirstOperator(#[from] FirstOperator),
    #[error("the spec was refused")]
    Refused(#[from] Rejections),
    #[error("could not read what the resource refers to")]
    Gather(#[from] gather::Error),
    #[error("the configuration could not be generated")]
    Expand(#[from] expand::Error),
    #[error("could not find every secret")]
    Secrets(#[from] secrets::Error),
    #[error("could not write the objects of the resource")]
    Apply(#[from] apply::Error),
    #[error("could not write the status of the resource")]
    Report(#[from] report::Error),
}

/// Brings the cluster to what one resource asks for, and says on its status how that went.
pub(crate) async fn reconcile(
    guarded: Arc<DeserializeGuard<Distribution>>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (guarded.namespace().unwrap_or_default(), guarded.name_any());
    let is_new = ctx
        .view
        .child(Kind::Deployment, &namespace, &name)
        .is_none();
    let _turn = if is_new {
        ctx.turns.urgent().await
    } else {
        ctx.turns.ordinary().await
    };
    let begun = Instant::now();
    let _pass = ctx.health.begin(begun);
    let outcome = pass(&guarded, &ctx).await;
    let word = outcome.as_ref().map_or_else(Error::word, |_| "done");
    if let Err(error) = &outcome {
        let codes = error.codes();
        codes
            .iter()
            .for_each(|code| ctx.metrics.count_rejection(code));
    }
    ctx.metrics.count_pass(word, begun.elapsed());
    if outcome.is_ok() {
        ctx.patience.regain(&namespace, &name);
    }
    outcome
}

async fn pass(guarded: &DeserializeGuard<Distribution>, ctx: &Context) -> Result<Action, Error> {
    let cr = guarded
        .0
        .as_ref()
        .map_err(|invalid| Error::Unreadable(invalid.error.clone()))?;
    if cr.metadata.deletion_timestamp.is_some() {
        // Everything is owned by the resource and goes with it.
        return Ok(Action::await_change());
    }
    let owner = owner(cr);
    let Some(outcome) = converge(cr, &owner, ctx).await.transpose() else {
        return Ok(Action::requeue(SOON));
    };
    report(ctx, cr, &owner, &outcome).await?;
    outcome.map(|applied| {
        Action::requeue(if applied.is_complete() {
            RESYNC
        } else {
            RECHECK
        })
    })
}

/// `None`: the server is started, and the rest waits until others are started, too.
async fn converge(
    cr: &Distribution,
    owner: &Owner,
    ctx: &Context,
) -> Result<Option<Applied>, Error> {
    let checked = check(cr)?;
    if let Some(running) = ctx.view.first_operator(Timestamp::now()) {
        return Err(running.into());
    }
    ctx.references.record(owner, &checked);
    let configuration = ctx.configurations.current().await;
    let gathered = gather(&ctx.contents, &configuration, &ctx.images, &checked, owner).await;
    let puller = Puller::of(&checked, &owner.namespace);
    ctx.references
        .record_pull_secrets(owner, ctx.images.pull_secrets(&puller));
    let read = match &gathered {
        Ok(gathered) => gathered.labels.as_ref().map(|_| "Read"),
        Err(error) => error.image().map(images::Error::reason),
    };
    if let Some(outcome) = read {
        ctx.metrics.count_image_read(outcome);
    }
    let gathered = gathered?;
    if let Some(plugin) = gathered.proposed_plugin() {
        ctx.plugins.proposals.note(&gathered.image, plugin);
    }
    let plan = expand(&ctx.plugins, &checked, &gathered).await?;
    let secrets = resolve_secrets(&ctx.contents, &checked, &plan, owner).await?;
    let desired = objects(&ObjectInputs {
        checked: &checked,
        image: &gathered.image,
        image_user: gathered.image_user(),
        plan: &plan,
        secrets_digest: secrets.digest.as_deref(),
        owner,
        cluster: &ctx.cluster,
        trust: gathered.trust.as_ref(),
        derived: &secrets.derived,
        network_policy: gathered.network_policy,
    })?;
    let target = Target {
        client: &ctx.client,
        view: &ctx.view,
        turns: &ctx.turns,
        owner,
        takes_any_release: matches!(checked.server, ServerSource::Named(_)),
    };
    let written = apply(target, desired).await?;
    Ok(written.map(|written| Applied::new(checked, gathered, plan, written)))
}

/// A spec that was refused waits for its author, a missing object for its maker; both are watched.
/// Anything else is tried again, later each time.
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
        (Error::FirstOperator(running), _) => patience(running, Timestamp::now()),
        // Nobody tells us of what changes in a registry.
        (_, Some(image)) => image.retry_after(),
        (error, None) if error.waits_for_somebody() => RESYNC,
        _ => {
            let namespace = guarded.namespace().unwrap_or_default();
            ctx.patience.lose(&namespace, &guarded.name_any())
        }
    })
}

/// Until the Lease of the first operator ends, if it does not go on.
fn patience(running: &FirstOperator, now: Timestamp) -> Duration {
    let left = running.until.duration_since(now);
    Duration::try_from(left)
        .unwrap_or_default()
        .clamp(Duration::from_secs(1), LEASE_RECHECK)
}

impl Error {
    /// Whether trying again is in vain until somebody changes something that is watched.
    pub(crate) fn waits_for_somebody(&self) -> bool {
        match self {
            Self::Unreadable(_) | Self::FirstOperator(_) | Self::Refused(_) => true,
            Self::Gather(error) => error.waits_for_somebody(),
            Self::Expand(error) => error.waits_for_somebody(),
            Self::Secrets(secrets::Error::Troubled(_)) => true,
            Self::Secrets(secrets::Error::Api { .. }) | Self::Apply(_) | Self::Report(_) => false,
        }
    }

    /// How a metric calls it.
    fn word(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::FirstOperator(_) => "other_operator",
            Self::Refused(_) => "refused",
            Self::Gather(_) => "gather",
            Self::Expand(_) => "expand",
            Self::Secrets(_) => "secrets",
            Self::Apply(_) => "apply",
            Self::Report(_) => "report",
        }
    }

    /// What was refused of the resource, by code: the plugin's, or that it broke a rule of the API.
    fn codes(&self) -> Vec<&str> {
        match self {
            Self::Refused(rejections) => rejections.iter().map(|_| "bad-spec").collect(),
            Self::Expand(expand::Error::Refused(Refusal::Rejected(found))) => found
                .iter()
                .filter(|one| one.severity == Severity::Error)
                .map(|one| one.code.as_str())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it cannot go on without help. What the API server refuses is tried again all the
    /// same: not everything that helps is watched.
    pub(crate) fn needs_help(&self) -> bool {
        self.waits_for_somebody() || matches!(self, Self::Apply(error) if error.is_refusal())
    }
}

pub(crate) fn owner(cr: &Distribution) -> Owner {
    let metadata = &cr.metadata;
    Owner {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

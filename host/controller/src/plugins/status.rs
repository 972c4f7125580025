//! What a `SchemaPlugin` says of itself: a condition per step, and the versions. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::plugin_condition as condition;
use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus, World};
use llsd_plugin::Plugin;
use llsd_registry::{PullError, PulledPlugin, Reference, Stage, Verdict, chain};
use llsd_render::adapter::Adapter;

use super::fetch::world;
use super::rollout::SHADOW_DIFF;
use super::shadow;
use crate::report::conditions::Conditions;

/// Reason of what a version in use makes of its `SchemaPlugin`.
pub(super) const IN_USE: &str = "InUse";
/// Reason of signatures that are not the wanted ones, where that is only to be known.
pub(super) const AUDITED: &str = "Audited";

/// The steps in order, with the condition of each.
const STEPS: [(Stage, &str); 8] = [
    (Stage::Resolve, condition::RESOLVED),
    (Stage::Admit, condition::ADMITTED),
    (Stage::Authenticate, condition::AUTHENTICATED),
    (Stage::Fetch, condition::FETCHED),
    (Stage::Verify, condition::VERIFIED),
    (Stage::Inspect, condition::INSPECTED),
    (Stage::Compile, condition::COMPILED),
    (Stage::DryInstantiate, condition::INSTANTIATED),
];

/// How far the newest version came.
#[derive(Debug)]
pub(super) enum Progress {
    /// Everything asked for is in use.
    InUse,
    /// It went through every step and waits; the reason and the message.
    Waits(&'static str, String),
    /// A step refused it.
    Stopped(PullError),
    /// The spec cannot be acted upon.
    Refused(String),
}

/// Sets the conditions.
pub(super) fn conditions(
    status: &mut SchemaPluginStatus,
    generation: Option<i64>,
    progress: &Progress,
    verdict: Option<&Verdict>,
    now: Timestamp,
) {
    let mut all = Conditions::new(&status.conditions, generation, now);
    match progress {
        Progress::InUse | Progress::Waits(..) => {
            for (stage, kind) in STEPS {
                let (is_true, reason, message) = match (stage, verdict) {
                    (Stage::Verify, Some(Verdict::Audited(problem))) => {
                        (false, AUDITED, problem.clone())
                    }
                    (Stage::Verify, Some(Verdict::Skipped)) => {
                        (true, "NotAskedFor", "no signature is asked for".to_owned())
                    }
                    (stage, _) => (true, "Succeeded", format!("{stage} succeeded")),
                };
                all.set(kind, is_true, reason, message);
            }
            match &status.shadow {
                Some(summary) => {
                    let is_too_much = matches!(progress, Progress::Waits(SHADOW_DIFF, _));
                    let reason = if is_too_much { SHADOW_DIFF } else { "Compared" };
                    let message = shadow::words(summary);
                    all.set(condition::SHADOWED, !is_too_much, reason, message);
                }
                // Versions that took over before are not compared afterwards, and images propose many.
                None => all.remove(condition::SHADOWED),
            }
        }
        Progress::Stopped(error) => {
            let at = STEPS.iter().position(|(stage, _)| *stage == error.stage);
            let at = at.unwrap_or_default();
            for (stage, kind) in &STEPS[..at] {
                all.set(kind, true, "Succeeded", format!("{stage} succeeded"));
            }
            all.set(STEPS[at].1, false, error.reason(), chain(error));
            let later = STEPS[at + 1..].iter().map(|(_, kind)| *kind);
            for kind in later.chain([condition::SHADOWED]) {
                let message = format!("{} failed before", error.stage);
                all.set(kind, false, "NotReached", message);
            }
        }
        Progress::Refused(problem) => all.set(condition::ADMITTED, false, "BadSpec", problem),
    }
    let (is_promoted, reason, message) = match progress {
        Progress::InUse => (true, "Succeeded", "the newest version is in use".to_owned()),
        Progress::Waits(reason, message) => (false, *reason, message.clone()),
        Progress::Stopped(error) => (false, error.reason(), chain(error)),
        Progress::Refused(problem) => (false, "BadSpec", problem.clone()),
    };
    all.set(condition::PROMOTED, is_promoted, reason, message.clone());
    let has_proposals = status.proposals.iter().any(|one| one.plugin.is_some());
    match (&status.current, is_promoted) {
        (_, true) => all.set(condition::READY, true, IN_USE, message),
        (Some(current), false) => {
            let message = format!("{} stays in use: {message}", current.reference);
            all.set(condition::READY, true, "LastGoodInUse", message);
        }
        (None, false) if has_proposals => all.set(condition::READY, true, IN_USE, message),
        (None, false) => all.set(condition::READY, false, reason, message),
    }
    status.conditions = all.into_vec();
    status.observed_generation = generation;
}

/// A version in the words of the API.
pub(super) fn describe(
    reference: &Reference,
    pulled: &PulledPlugin,
    plugin: &Plugin,
    since: Timestamp,
) -> LoadedPlugin {
    let about = plugin.description();
    let signed_by = match &pulled.verdict {
        Verdict::Signed(keys) => keys.iter().cloned().collect(),
        Verdict::Audited(_) | Verdict::Skipped => Vec::new(),
    };
    let world: World = world(plugin);
    LoadedPlugin {
        reference: reference.to_string(),
        component_digest: pulled.layer_digest.to_string(),
        manifest_digest: Some(pulled.manifest_digest.to_string()),
        name: Some(about.name.clone()),
        version: Some(about.version.clone()),
        vendor: Some(about.vendor.clone()),
        world: Some(world),
        schemas: about.schemas.iter().map(|one| one.id.clone()).collect(),
        signed_by,
        since: Some(Time(since)),
    }
}

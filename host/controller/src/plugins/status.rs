//! The status of a `SchemaPlugin`: one condition per step, and the versions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::plugin_condition as condition;
use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus, World};
use llsd_plugin::Plugin;
use llsd_registry::{PulledPlugin, Reference, SignatureStatus, Stage, chain};
use llsd_render::adapter::Adapter;

use super::fetch::world;
use super::progress::{IN_USE, Progress, SHADOW_DIFF, VERIFICATION_LOST};
use super::promotion::Outcome;
use super::shadow;
use crate::reconcile::report::conditions::Conditions;

/// Reason of a signature problem that `spec.verify.level: audit` only reports.
pub(super) const AUDITED: &str = "Audited";

/// The steps in order, each with its condition.
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

/// Sets the conditions of a status.
pub(super) fn set_conditions(
    status: &mut SchemaPluginStatus,
    generation: Option<i64>,
    outcome: &Outcome,
    now: Timestamp,
) {
    let Outcome {
        progress,
        signature,
        verification_loss,
        promoted: _,
    } = outcome;
    let signature = signature.as_ref();
    let mut all = Conditions::new(&status.conditions, generation, now);
    match progress {
        Progress::InUse | Progress::Held(..) => {
            for (stage, kind) in STEPS {
                let (is_true, reason, message) = match (stage, signature) {
                    (Stage::Verify, Some(SignatureStatus::Audited(problem))) => {
                        (false, AUDITED, problem.clone())
                    }
                    (Stage::Verify, Some(SignatureStatus::Skipped)) => {
                        (true, "NotAskedFor", "no signature is required".to_owned())
                    }
                    (stage, _) => (true, "Succeeded", format!("{stage} succeeded")),
                };
                all.set(kind, is_true, reason, message);
            }
            match &status.shadow {
                Some(summary) => {
                    let exceeds_limit = matches!(progress, Progress::Held(SHADOW_DIFF, _));
                    let reason = if exceeds_limit {
                        SHADOW_DIFF
                    } else {
                        "Compared"
                    };
                    let message = shadow::describe(summary);
                    all.set(condition::SHADOWED, !exceeds_limit, reason, message);
                }
                // A version that is already in use is not compared, and proposals have no summary.
                None => all.remove(condition::SHADOWED),
            }
        }
        Progress::Failed(error) => {
            let at = STEPS.iter().position(|(stage, _)| *stage == error.stage);
            let at = at.unwrap_or_default();
            for (stage, kind) in &STEPS[..at] {
                all.set(kind, true, "Succeeded", format!("{stage} succeeded"));
            }
            all.set(STEPS[at].1, false, error.reason(), chain(error));
            let later = STEPS[at + 1..].iter().map(|(_, kind)| *kind);
            for kind in later.chain([condition::SHADOWED]) {
                let message = format!("not reached: {} failed", error.stage);
                all.set(kind, false, "NotReached", message);
            }
        }
        Progress::InvalidSpec(problem) => all.set(condition::ADMITTED, false, "BadSpec", problem),
    }
    match (verification_loss, progress) {
        // The newest version has the same problem; say both.
        (Some(loss), Progress::Failed(error)) if error.stage == Stage::Verify => {
            let message = format!("{loss}; the newest version: {}", chain(error));
            all.set(condition::VERIFIED, false, error.reason(), message);
        }
        (Some(loss), _) => all.set(condition::VERIFIED, false, VERIFICATION_LOST, loss),
        (None, _) => {}
    }
    let (is_promoted, reason, message) = match progress {
        Progress::InUse => (true, "Succeeded", "the newest version is in use".to_owned()),
        Progress::Held(reason, message) => (false, *reason, message.clone()),
        Progress::Failed(error) => (false, error.reason(), chain(error)),
        Progress::InvalidSpec(problem) => (false, "BadSpec", problem.clone()),
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

/// The description of a version in the status.
pub(super) fn describe(
    reference: &Reference,
    pulled: &PulledPlugin,
    plugin: &Plugin,
    since: Timestamp,
) -> LoadedPlugin {
    let about = plugin.description();
    let signed_by = match &pulled.signature_status {
        SignatureStatus::Signed(signers) => signers.iter().cloned().collect(),
        SignatureStatus::Audited(_) | SignatureStatus::Skipped => Vec::new(),
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

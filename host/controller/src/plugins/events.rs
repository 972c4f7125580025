//! Selects the transitions of a `SchemaPlugin` that are worth an event.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llsd_api::conditions::plugin_condition as condition;
use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus};

use super::progress::{IN_USE, QUARANTINED, VERIFICATION_LOST, quarantine_message};
use super::status::AUDITED;
use crate::process::Transition;

/// The transitions from an old to a new status.
pub(super) fn transitions(old: &SchemaPluginStatus, new: &SchemaPluginStatus) -> Vec<Transition> {
    let mut transitions = Vec::new();
    let loaded = |status| in_use(status).chain(status.candidate.iter());
    for one in loaded(new).filter(|one| !one.signed_by.is_empty()) {
        if !loaded(old).any(|known| known.component_digest == one.component_digest) {
            let note = format!("{} is signed by {}", label(one), one.signed_by.join(", "));
            transitions.push(normal(condition::VERIFIED, note));
        }
    }
    for one in in_use(new) {
        if !in_use(old).any(|known| known.component_digest == one.component_digest) {
            transitions.push(normal(IN_USE, format!("{} is in use", label(one))));
        }
    }
    for digest in &new.quarantined {
        if !old.quarantined.contains(digest) {
            let note = quarantine_message(digest);
            transitions.push(warning(QUARANTINED, &note));
        }
    }
    let audited = changed_condition(old, new, condition::VERIFIED)
        .filter(|one| one.reason == AUDITED || one.reason == VERIFICATION_LOST);
    let failed = changed_condition(old, new, condition::PROMOTED)
        .filter(|one| one.status == "False")
        .filter(|one| one.reason != QUARANTINED && one.reason != VERIFICATION_LOST);
    let problems = audited.into_iter().chain(failed);
    transitions.extend(problems.map(|one| warning(&one.reason, &one.message)));
    transitions
}

fn in_use(status: &SchemaPluginStatus) -> impl Iterator<Item = &LoadedPlugin> {
    let proposed = status
        .proposals
        .iter()
        .filter_map(|one| one.plugin.as_ref());
    status.current.iter().chain(proposed)
}

/// A condition whose reason or message changed.
fn changed_condition<'a>(
    old: &SchemaPluginStatus,
    new: &'a SchemaPluginStatus,
    kind: &str,
) -> Option<&'a Condition> {
    let before = old.conditions.iter().find(|one| one.type_ == kind);
    let now = new.conditions.iter().find(|one| one.type_ == kind)?;
    let content = |one: &Condition| (one.reason.clone(), one.message.clone());
    (before.map(content) != Some(content(now))).then_some(now)
}

fn label(plugin: &LoadedPlugin) -> String {
    let LoadedPlugin {
        reference,
        component_digest,
        version,
        ..
    } = plugin;
    let version = version.as_deref().unwrap_or("no version");
    format!("{reference} ({version}, {component_digest})")
}

fn normal(reason: &str, note: String) -> Transition {
    Transition {
        is_warning: false,
        reason: reason.to_owned(),
        note,
    }
}

fn warning(reason: &str, note: &str) -> Transition {
    Transition {
        is_warning: true,
        reason: reason.to_owned(),
        note: note.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::progress::Progress;
    use super::super::promotion::Outcome;
    use super::super::status::set_conditions;
    use super::*;

    fn version(digest: &str) -> LoadedPlugin {
        LoadedPlugin {
            reference: "quay.io/acme/x:1".to_owned(),
            component_digest: digest.to_owned(),
            signed_by: vec!["sha256:key".to_owned()],
            ..LoadedPlugin::default()
        }
    }

    fn status(
        current: Option<&str>,
        candidate: Option<&str>,
        progress: Progress,
    ) -> SchemaPluginStatus {
        let mut status = SchemaPluginStatus {
            current: current.map(version),
            candidate: candidate.map(version),
            ..SchemaPluginStatus::default()
        };
        let outcome = Outcome::new(progress);
        set_conditions(&mut status, Some(1), &outcome, Timestamp::UNIX_EPOCH);
        status
    }

    fn published(old: &SchemaPluginStatus, new: &SchemaPluginStatus) -> Vec<String> {
        let all = transitions(old, new).into_iter();
        all.map(|one| format!("{}{}", one.reason, if one.is_warning { "!" } else { "" }))
            .collect()
    }

    #[test]
    fn a_version_has_events_when_it_is_put_into_use_held_back_or_quarantined() {
        let nothing = SchemaPluginStatus::default();
        let first = status(Some("sha256:1"), None, Progress::InUse);
        assert_eq!(published(&nothing, &first), ["Verified", "InUse"]);
        assert!(published(&first, &first).is_empty());
        let held = Progress::Held("ShadowDiff", "2 change".to_owned());
        let waiting = status(Some("sha256:1"), Some("sha256:2"), held);
        assert_eq!(published(&first, &waiting), ["Verified", "ShadowDiff!"]);
        let second = status(Some("sha256:2"), None, Progress::InUse);
        assert_eq!(published(&waiting, &second), ["InUse"]);
        let quarantined = Progress::Held(QUARANTINED, "no".to_owned());
        let reverted = SchemaPluginStatus {
            quarantined: vec!["sha256:2".to_owned()],
            ..status(Some("sha256:1"), Some("sha256:2"), quarantined)
        };
        assert_eq!(
            published(&second, &reverted),
            ["Verified", "InUse", "Quarantined!"]
        );
        let invalid = Progress::InvalidSpec("spec.reference: no".to_owned());
        let rejected = status(None, None, invalid);
        assert_eq!(published(&nothing, &rejected), ["BadSpec!"]);
    }
}

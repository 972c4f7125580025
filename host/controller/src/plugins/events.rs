//! What is worth telling about a `SchemaPlugin`: versions that come, and why they do not. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llsd_api::conditions::plugin_condition as condition;
use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus};

use super::status::{AUDITED, IN_USE};
use super::take_over::QUARANTINED;
use crate::report::Transition;

/// What became other than it was.
pub(super) fn transitions(old: &SchemaPluginStatus, new: &SchemaPluginStatus) -> Vec<Transition> {
    let mut told = Vec::new();
    let seen = |status| in_use(status).chain(status.candidate.iter());
    for one in seen(new).filter(|one| !one.signed_by.is_empty()) {
        if !seen(old).any(|known| known.component_digest == one.component_digest) {
            let note = format!("{} is signed by {}", label(one), one.signed_by.join(", "));
            told.push(normal(condition::VERIFIED, note));
        }
    }
    for one in in_use(new) {
        if !in_use(old).any(|known| known.component_digest == one.component_digest) {
            told.push(normal(IN_USE, format!("{} is in use", label(one))));
        }
    }
    for digest in &new.quarantined {
        if !old.quarantined.contains(digest) {
            let note = format!("{digest} failed too often and is not used again");
            told.push(warning(QUARANTINED, &note));
        }
    }
    let audited = news(old, new, condition::VERIFIED).filter(|one| one.reason == AUDITED);
    let stopped = news(old, new, condition::PROMOTED)
        .filter(|one| one.status == "False" && one.reason != QUARANTINED);
    let troubles = audited.into_iter().chain(stopped);
    told.extend(troubles.map(|one| warning(&one.reason, &one.message)));
    told
}

fn in_use(status: &SchemaPluginStatus) -> impl Iterator<Item = &LoadedPlugin> {
    let proposed = status
        .proposals
        .iter()
        .filter_map(|one| one.plugin.as_ref());
    status.current.iter().chain(proposed)
}

/// A condition that says something else than before.
fn news<'a>(
    old: &SchemaPluginStatus,
    new: &'a SchemaPluginStatus,
    kind: &str,
) -> Option<&'a Condition> {
    let before = old.conditions.iter().find(|one| one.type_ == kind);
    let now = new.conditions.iter().find(|one| one.type_ == kind)?;
    let said = |one: &Condition| (one.reason.clone(), one.message.clone());
    (before.map(said) != Some(said(now))).then_some(now)
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

    use super::super::status::{Progress, conditions};
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
        progress: &Progress,
    ) -> SchemaPluginStatus {
        let mut status = SchemaPluginStatus {
            current: current.map(version),
            candidate: candidate.map(version),
            ..SchemaPluginStatus::default()
        };
        conditions(&mut status, Some(1), progress, None, Timestamp::UNIX_EPOCH);
        status
    }

    fn told(old: &SchemaPluginStatus, new: &SchemaPluginStatus) -> Vec<String> {
        let all = transitions(old, new).into_iter();
        all.map(|one| format!("{}{}", one.reason, if one.is_warning { "!" } else { "" }))
            .collect()
    }

    #[test]
    fn a_version_is_told_when_it_comes_when_it_waits_and_when_it_is_put_aside_and_only_then() {
        let nothing = SchemaPluginStatus::default();
        let first = status(Some("sha256:1"), None, &Progress::InUse);
        assert_eq!(told(&nothing, &first), ["Verified", "InUse"]);
        assert!(told(&first, &first).is_empty());
        let waits = Progress::Waits("ShadowDiff", "2 change".to_owned());
        let held = status(Some("sha256:1"), Some("sha256:2"), &waits);
        assert_eq!(told(&first, &held), ["Verified", "ShadowDiff!"]);
        let second = status(Some("sha256:2"), None, &Progress::InUse);
        assert_eq!(told(&held, &second), ["InUse"]);
        let aside = Progress::Waits(QUARANTINED, "no".to_owned());
        let reverted = SchemaPluginStatus {
            quarantined: vec!["sha256:2".to_owned()],
            ..status(Some("sha256:1"), Some("sha256:2"), &aside)
        };
        assert_eq!(
            told(&second, &reverted),
            ["Verified", "InUse", "Quarantined!"]
        );
        let refused = Progress::Refused("spec.reference: no".to_owned());
        let refused = status(None, None, &refused);
        assert_eq!(told(&nothing, &refused), ["BadSpec!"]);
    }
}

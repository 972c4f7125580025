//! Decides whether a version that passed every step is put into use automatically.

use llsd_api::schema_plugin::{LoadedPlugin, Rollout, RolloutMode};
use semver::Version;

use super::progress::{Progress, SHADOW_DIFF};
use super::shadow::Comparison;

/// Why the rollout policy holds a version back; `None` if it does not. An approved version may change
/// any number of resources.
pub(super) fn held_back(
    rollout: Option<&Rollout>,
    digest: &str,
    comparison: &Comparison,
) -> Option<Progress> {
    let Rollout {
        mode,
        max_diff,
        approved_digest,
        allow_downgrade: _,
        rollback_from: _,
        existing: _,
    } = rollout?;
    let is_approved = approved_digest.as_deref() == Some(digest);
    let approve = format!("set spec.rollout.approvedDigest to {digest:?} to put it into use");
    let (reason, message) = match mode.unwrap_or_default() {
        RolloutMode::Shadow => (
            "ShadowOnly",
            "spec.rollout.mode is shadow: the version is never put into use".to_owned(),
        ),
        _ if is_approved => return None,
        RolloutMode::Manual => ("AwaitingApproval", approve),
        RolloutMode::Auto => {
            let limit = max_diff.filter(|limit| comparison.differing() > *limit)?;
            let message = format!(
                "{comparison}, but spec.rollout.maxDiff is {limit}; raise it, or {approve}"
            );
            (SHADOW_DIFF, message)
        }
    };
    Some(Progress::Held(reason, message))
}

/// Why a version must not replace the one in use, whatever it would change; `None` if it may.
pub(super) fn unwanted(
    rollout: Option<&Rollout>,
    current: Option<&LoadedPlugin>,
    newest: &LoadedPlugin,
) -> Option<Progress> {
    let digest = &newest.component_digest;
    if rollout.and_then(|rollout| rollout.rollback_from.as_ref()) == Some(digest) {
        return Some(rolled_back(digest));
    }
    if rollout.and_then(|rollout| rollout.allow_downgrade) == Some(true) {
        return None;
    }
    let (lower, higher) = (newest.version.as_deref()?, current?.version.as_deref()?);
    is_lower(lower, higher).then(|| {
        let message = format!(
            "{digest} has version {lower}, which is lower than {higher}, the one in use; publish a higher \
             version, or set spec.rollout.allowDowngrade to true"
        );
        Progress::Held("Downgrade", message)
    })
}

/// The state of a version that `spec.rollout.rollbackFrom` names.
pub(super) fn rolled_back(digest: &str) -> Progress {
    let message = format!(
        "{digest} is rolled back; publish a corrected version, or remove spec.rollout.rollbackFrom to use \
         it again"
    );
    Progress::Held("RolledBack", message)
}

/// Compares semantic versions. Other versions have no order, so none of them is lower.
fn is_lower(one: &str, other: &str) -> bool {
    match (one.parse::<Version>(), other.parse::<Version>()) {
        (Ok(one), Ok(other)) => one.cmp_precedence(&other).is_lt(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::schema_plugin::ShadowSummary;

    use super::*;

    const DIGEST: &str = "sha256:2";

    fn rollout(mode: RolloutMode, max_diff: Option<i32>, approved: Option<&str>) -> Rollout {
        Rollout {
            mode: Some(mode),
            max_diff,
            approved_digest: approved.map(str::to_owned),
            ..Rollout::default()
        }
    }

    fn version(version: &str) -> LoadedPlugin {
        LoadedPlugin {
            component_digest: format!("sha256:{version}"),
            version: Some(version.to_owned()),
            ..LoadedPlugin::default()
        }
    }

    #[test]
    fn a_lower_version_is_held_back_unless_the_spec_allows_it() {
        let held = |rollout: Option<&Rollout>, current: &str, newest: &str| {
            let (current, newest) = (version(current), version(newest));
            match unwanted(rollout, Some(&current), &newest) {
                Some(Progress::Held(reason, message)) => Some((reason, message)),
                _ => None,
            }
        };
        let (reason, message) = held(None, "1.10.0", "1.9.3").expect("held back");
        assert_eq!(reason, "Downgrade");
        assert!(
            message.contains("1.9.3")
                && message.contains("1.10.0")
                && message.contains("allowDowngrade")
        );
        assert!(held(None, "1.0.0", "1.0.0-rc.1").is_some());
        for (current, newest) in [
            ("1.9.3", "1.10.0"),
            ("1.0.0", "1.0.0"),
            ("today", "yesterday"),
        ] {
            assert_eq!(held(None, current, newest), None);
        }
        let allowed = Rollout {
            allow_downgrade: Some(true),
            ..Rollout::default()
        };
        assert_eq!(held(Some(&allowed), "1.10.0", "1.9.3"), None);
        assert!(unwanted(None, None, &version("0.1.0")).is_none());
    }

    #[test]
    fn a_version_that_was_rolled_back_is_not_put_into_use_again() {
        let rollout = Rollout {
            rollback_from: Some("sha256:2.0.0".to_owned()),
            ..Rollout::default()
        };
        let current = version("1.0.0");
        let held = unwanted(Some(&rollout), Some(&current), &version("2.0.0"));
        assert!(matches!(held, Some(Progress::Held("RolledBack", _))));
        assert!(unwanted(Some(&rollout), Some(&current), &version("2.0.1")).is_none());
    }

    fn reason(rollout: Option<Rollout>, comparison: &Comparison) -> Option<&'static str> {
        match held_back(rollout.as_ref(), DIGEST, comparison)? {
            Progress::Held(reason, _) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn a_version_is_put_into_use_automatically_unless_the_policy_requires_approval() {
        let nothing = Comparison::default();
        let auto = |approved| Some(rollout(RolloutMode::Auto, None, approved));
        assert_eq!(reason(None, &nothing), None);
        assert_eq!(reason(auto(None), &nothing), None);
        let manual = |approved| Some(rollout(RolloutMode::Manual, None, approved));
        assert_eq!(reason(manual(None), &nothing), Some("AwaitingApproval"));
        assert_eq!(reason(manual(Some(DIGEST)), &nothing), None);
        let other = Some("sha256:1");
        assert_eq!(reason(manual(other), &nothing), Some("AwaitingApproval"));
        let shadow = Some(rollout(RolloutMode::Shadow, None, Some(DIGEST)));
        assert_eq!(reason(shadow, &nothing), Some("ShadowOnly"));
    }

    #[test]
    fn changed_rejected_and_unread_resources_count_against_the_limit() {
        let compared = |changed, refused, unread| Comparison {
            summary: ShadowSummary {
                compared: 9,
                changed,
                refused,
                examples: Vec::new(),
            },
            unread,
        };
        let auto = |limit, approved| Some(rollout(RolloutMode::Auto, limit, approved));
        for comparison in [compared(3, 0, 0), compared(0, 3, 0), compared(1, 1, 1)] {
            assert_eq!(reason(auto(Some(2), None), &comparison), Some(SHADOW_DIFF));
            assert_eq!(reason(auto(Some(3), None), &comparison), None);
            assert_eq!(reason(auto(None, None), &comparison), None);
            assert_eq!(reason(auto(Some(0), Some(DIGEST)), &comparison), None);
        }
    }
}

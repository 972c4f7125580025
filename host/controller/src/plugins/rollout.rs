//! Decides whether a version that passed every step is put into use automatically.

use llsd_api::schema_plugin::{Rollout, RolloutMode};

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
        }
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

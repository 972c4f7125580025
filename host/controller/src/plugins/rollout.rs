//! Whether a version that went through every step takes over by itself. Pure.

use llsd_api::schema_plugin::{Rollout, RolloutMode};

use super::shadow::Comparison;
use super::status::Progress;

/// Reason of a version that would change more than its installer allows.
pub(super) const SHADOW_DIFF: &str = "ShadowDiff";

/// Why an installer's rollout holds a version back. Whoever approved it has seen what it changes.
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
    let approve = format!("set spec.rollout.approvedDigest to {digest} to let it take over");
    let (reason, message) = match mode.unwrap_or_default() {
        RolloutMode::Shadow => (
            "ShadowOnly",
            "spec.rollout.mode is shadow: it never takes over".to_owned(),
        ),
        _ if is_approved => return None,
        RolloutMode::Manual => ("AwaitingApproval", approve),
        RolloutMode::Auto => {
            let limit = max_diff.filter(|limit| comparison.differing() > *limit)?;
            let message = format!(
                "{comparison}, and spec.rollout.maxDiff is {limit}; raise it, or {approve}"
            );
            (SHADOW_DIFF, message)
        }
    };
    Some(Progress::Waits(reason, message))
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
            Progress::Waits(reason, _) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn a_version_takes_over_by_itself_unless_the_rollout_wants_to_be_asked() {
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
    fn what_changes_what_is_refused_and_what_nobody_knows_counts_against_the_limit() {
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

//! How far the newest version of a plugin came.

use llsd_registry::PullError;

/// Reason of the conditions of a `SchemaPlugin` whose plugin is in use.
pub(super) const IN_USE: &str = "InUse";
/// Reason of a version that would change more resources than its `SchemaPlugin` allows.
pub(super) const SHADOW_DIFF: &str = "ShadowDiff";
/// Reason of a version that failed too often.
pub(super) const QUARANTINED: &str = "Quarantined";

/// Reason of a version in use that is no longer signed as the spec requires.
pub(super) const VERIFICATION_LOST: &str = "VerificationLost";

/// How far the newest version of a plugin came.
#[derive(Debug)]
pub(super) enum Progress {
    /// It is in use.
    InUse,
    /// It passed every step, but is held back; with reason and message.
    Held(&'static str, String),
    /// A step failed.
    Failed(PullError),
    /// The spec is invalid.
    InvalidSpec(String),
}

impl Progress {
    pub(super) fn quarantined(digest: &str) -> Self {
        Self::Held(QUARANTINED, quarantine_message(digest))
    }
}

/// The message about a quarantined component.
pub(super) fn quarantine_message(digest: &str) -> String {
    format!("{digest} failed too often and is quarantined")
}

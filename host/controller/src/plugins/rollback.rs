//! Takes the version in use out of use: on request, or because it is no longer sufficiently signed.

use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus, VerificationLoss};
use llsd_plugin::Plugin;
use llsd_registry::chain;

use super::checked_spec::CheckedSpec;
use super::progress::{Progress, VERIFICATION_LOST};
use super::promotion::{Outcome, Promotion};
use super::restore::load_stored;
use super::rollout::rolled_back;
use crate::active_plugins::Slot;

impl Promotion<'_> {
    /// Replaces the version that `spec.rollout.rollbackFrom` names by the previous one. `None` if it is not
    /// in use. Without a previous version that can be used, nothing changes.
    pub(super) async fn roll_back(
        &self,
        slot: &Slot,
        status: &mut SchemaPluginStatus,
    ) -> Option<Outcome> {
        let rollout = self.resource.spec.rollout.as_ref()?;
        let unwanted = rollout.rollback_from.as_deref()?;
        let current = status.current.as_ref()?;
        if current.component_digest != unwanted {
            return None;
        }
        let previous = match self.load_previous(status).await {
            Ok(previous) => previous,
            Err(problem) => {
                self.restore(slot, status.current.as_ref()).await;
                let message = format!("failed to roll back from {unwanted}: {problem}");
                return Some(Outcome::new(Progress::Held("RollbackFailed", message)));
            }
        };
        let mut outcome = Outcome::new(rolled_back(unwanted));
        outcome.promoted.push((slot.clone(), previous));
        status.candidate = status.current.take();
        status.current = status.previous.take();
        Some(outcome)
    }

    /// Checks that the version in use is signed as the spec requires, and takes it out of use if the spec
    /// says so.
    pub(super) async fn check_verification(
        &self,
        slot: &Slot,
        status: &mut SchemaPluginStatus,
        outcome: &mut Outcome,
    ) {
        let loss = status
            .current
            .as_ref()
            .and_then(|one| self.spec.verification_loss(one));
        let Some(loss) = loss else { return };
        if self.spec.on_verification_loss == VerificationLoss::Keep {
            outcome.verification_loss = Some(format!("{loss}; it stays in use"));
            return;
        }
        let replacement = self.load_previous(status).await.ok();
        status.candidate = status.current.take();
        self.plugins.set.remove(slot);
        if let Some(previous) = replacement {
            outcome.promoted.push((slot.clone(), previous));
            status.current = status.previous.take();
        }
        let message = format!(
            "{loss}; it was taken out of use, because spec.verify.onVerificationLoss is Quarantine"
        );
        outcome.progress = Progress::Held(VERIFICATION_LOST, message.clone());
        outcome.verification_loss = Some(message);
    }

    /// Loads the previous version, if it may be used. The error says what to do.
    async fn load_previous(&self, status: &SchemaPluginStatus) -> Result<Plugin, String> {
        let previous = status
            .previous
            .as_ref()
            .ok_or("there is no previous version; publish a corrected version")?;
        if self.is_quarantined(previous) {
            return Err("the previous version is quarantined; publish a corrected version".into());
        }
        if let Some(loss) = self.spec.verification_loss(previous) {
            return Err(loss);
        }
        load_stored(self.fetcher.host, &self.stored, previous, &self.spec.grant)
            .await
            .map_err(|error| chain(&error))
    }
}

impl CheckedSpec {
    /// Why a version is not signed as the spec requires; `None` if it is. Uses the signers in the status, so
    /// that a removed key or identity counts also while the registry is unavailable.
    pub(super) fn verification_loss(&self, version: &LoadedPlugin) -> Option<String> {
        use llsd_registry::signature::Level;

        let required = &self.rule.verification;
        if required.level != Level::Enforce {
            return None;
        }
        let signed = required.count_trusted(&version.signed_by);
        let threshold = required.threshold.max(1);
        (signed < threshold).then(|| {
            format!(
                "{} ({}) is signed by {signed} of the keys and identities in spec.verify, {threshold} required",
                version.reference, version.component_digest
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::schema_plugin::SchemaPluginSpec;
    use serde_json::json;

    use super::*;

    const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    fn spec(verify: serde_json::Value) -> CheckedSpec {
        let spec: SchemaPluginSpec =
            serde_json::from_value(json!({ "reference": "quay.io/acme/x:1", "verify": verify }))
                .expect("a spec");
        CheckedSpec::new(&spec).expect("a valid spec")
    }

    #[test]
    fn a_version_loses_its_verification_with_the_key_that_signed_it() {
        let trusting = spec(json!({ "level": "enforce", "keys": [KEY] }));
        let fingerprint = trusting.rule.verification.keys[0].fingerprint();
        let signed = LoadedPlugin {
            signed_by: vec![fingerprint],
            ..LoadedPlugin::default()
        };
        assert_eq!(trusting.verification_loss(&signed), None);
        let other = LoadedPlugin {
            signed_by: vec!["sha256:removed".to_owned()],
            ..LoadedPlugin::default()
        };
        assert!(trusting.verification_loss(&other).is_some());
        assert!(
            trusting
                .verification_loss(&LoadedPlugin::default())
                .is_some()
        );
        for level in ["audit", "skip"] {
            let lenient = spec(json!({ "level": level, "keys": [KEY] }));
            assert_eq!(lenient.verification_loss(&LoadedPlugin::default()), None);
        }
    }

    #[test]
    fn a_version_loses_its_verification_with_the_identity_that_signed_it() {
        let trusting = |subject: &str| {
            let identity = json!({ "issuer": "https://token.example.com", "subject": subject });
            spec(json!({
                "level": "enforce",
                "identities": [identity],
                "trustedRootRef": { "name": "sigstore" },
            }))
        };
        let signed = LoadedPlugin {
            signed_by: vec!["ci (https://token.example.com)".to_owned()],
            ..LoadedPlugin::default()
        };
        assert_eq!(trusting("ci").verification_loss(&signed), None);
        assert!(trusting("release").verification_loss(&signed).is_some());
    }
}

//! What the server says about itself.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{DistributionStatus, Versions};

use super::conditions::Conditions;
use crate::polling::{Answer, Heard};

/// Takes over what the server said. What it said before stays when it says nothing.
pub(super) fn report(
    conditions: &mut Conditions,
    status: &mut DistributionStatus,
    heard: &Heard,
    now: Timestamp,
) {
    let Answer { version, providers } = match heard {
        Ok(answer) => answer,
        Err(silence) => {
            conditions.set(
                condition::SERVER_ANSWERS,
                false,
                reason::SERVER_SILENT,
                silence.to_string(),
            );
            return;
        }
    };
    conditions.set(
        condition::SERVER_ANSWERS,
        true,
        reason::SERVER_ANSWERED,
        format!("release {version} with {} providers", providers.len()),
    );
    let config = status.distribution_config.get_or_insert_default();
    config.providers.clone_from(providers);
    let versions = status.version.get_or_insert_default();
    if versions.llama_stack_server_version.as_ref() != Some(version) {
        *versions = Versions {
            llama_stack_server_version: Some(version.clone()),
            last_updated: Some(Time(now)),
            ..versions.clone()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polling::Silence;

    #[test]
    fn a_server_that_falls_silent_keeps_what_it_said_and_the_condition_tells() {
        let answer = Ok(Answer {
            version: "0.7.1".to_owned(),
            providers: Vec::new(),
        });
        let mut status = DistributionStatus::default();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        report(&mut conditions, &mut status, &answer, Timestamp::UNIX_EPOCH);
        let told = status.clone();
        report(
            &mut conditions,
            &mut status,
            &Err(Silence::Trust),
            Timestamp::now(),
        );
        assert_eq!(status, told);
        let conditions = conditions.into_vec();
        assert_eq!(
            (conditions.len(), conditions[0].status.as_str()),
            (1, "False")
        );
    }
}

//! The version and providers that the server reports.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{DistributionStatus, Versions};

use super::conditions::Conditions;
use crate::servers::{QueryResult, ServerInfo};

/// Copies the result of the last poll to the status. After a failed poll the last values stay.
pub(super) fn report(
    conditions: &mut Conditions,
    status: &mut DistributionStatus,
    result: &QueryResult,
    now: Timestamp,
) {
    let ServerInfo { version, providers } = match result {
        Ok(info) => info,
        Err(error) => {
            conditions.set(
                condition::SERVER_ANSWERS,
                false,
                reason::SERVER_SILENT,
                error.to_string(),
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
    use crate::servers::QueryError;

    #[test]
    fn after_a_failed_poll_the_last_values_stay_and_the_condition_is_false() {
        let info = Ok(ServerInfo {
            version: "0.7.1".to_owned(),
            providers: Vec::new(),
        });
        let mut status = DistributionStatus::default();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        report(&mut conditions, &mut status, &info, Timestamp::UNIX_EPOCH);
        let before = status.clone();
        report(
            &mut conditions,
            &mut status,
            &Err(QueryError::Certificates),
            Timestamp::now(),
        );
        assert_eq!(status, before);
        let conditions = conditions.into_vec();
        assert_eq!(
            (conditions.len(), conditions[0].status.as_str()),
            (1, "False")
        );
    }
}

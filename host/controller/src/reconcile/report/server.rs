//! The version and providers that the server reports.
//!
//! The version is that of the image in `status.resolvedDistribution`: it is recorded only when no other
//! pods can respond, and removed when the image changes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{DistributionStatus, ResolvedDistribution, Versions};

use super::conditions::Conditions;
use crate::servers::{LastPoll, ServerInfo};

/// Copies the result of the last poll to the status. After a failed poll the last values stay.
pub(super) fn report(
    conditions: &mut Conditions,
    status: &mut DistributionStatus,
    last: &LastPoll,
    now: Timestamp,
) {
    let ServerInfo { version, providers } = match &last.result {
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
    if !last.is_current {
        return;
    }
    let versions = status.version.get_or_insert_default();
    if versions.llama_stack_server_version.as_ref() != Some(version) {
        *versions = Versions {
            llama_stack_server_version: Some(version.clone()),
            last_updated: Some(Time(now)),
            ..versions.clone()
        };
    }
}

/// Removes the version of the previous image if the image changed. The status of
/// llama-stack-k8s-operator has a version and no image, so that an unknown image counts as the same.
pub(super) fn forget_version(
    status: &mut DistributionStatus,
    old: Option<&ResolvedDistribution>,
    new: &ResolvedDistribution,
) {
    let old = old.and_then(|old| old.image.as_deref());
    if old.is_some_and(|old| Some(old) != new.image.as_deref())
        && let Some(versions) = &mut status.version
    {
        versions.llama_stack_server_version = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{QueryError, QueryResult};

    fn current(result: QueryResult) -> LastPoll {
        LastPoll {
            result,
            is_current: true,
        }
    }

    #[test]
    fn after_a_failed_poll_the_last_values_stay_and_the_condition_is_false() {
        let info = current(Ok(ServerInfo {
            version: "0.7.1".to_owned(),
            providers: Vec::new(),
        }));
        let mut status = DistributionStatus::default();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        report(&mut conditions, &mut status, &info, Timestamp::UNIX_EPOCH);
        let before = status.clone();
        report(
            &mut conditions,
            &mut status,
            &current(Err(QueryError::Certificates)),
            Timestamp::now(),
        );
        assert_eq!(status, before);
        let conditions = conditions.into_vec();
        assert_eq!(
            (conditions.len(), conditions[0].status.as_str()),
            (1, "False")
        );
    }

    #[test]
    fn a_version_is_recorded_for_the_current_pods_only_and_removed_with_their_image() {
        let image = |name: &str| ResolvedDistribution {
            image: Some(name.to_owned()),
            ..ResolvedDistribution::default()
        };
        let version = |status: &DistributionStatus| {
            let versions = status.version.clone().unwrap_or_default();
            versions.llama_stack_server_version
        };
        let mut status = DistributionStatus::default();
        let poll = |status: &mut DistributionStatus, release: &str, is_current| {
            let last = LastPoll {
                result: Ok(ServerInfo {
                    version: release.to_owned(),
                    providers: Vec::new(),
                }),
                is_current,
            };
            let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
            report(&mut conditions, status, &last, Timestamp::UNIX_EPOCH);
        };
        poll(&mut status, "0.3.5", true);
        forget_version(&mut status, None, &image("a:1"));
        forget_version(&mut status, Some(&image("a:1")), &image("a:1"));
        assert_eq!(version(&status).as_deref(), Some("0.3.5"));
        forget_version(&mut status, Some(&image("a:1")), &image("a:2"));
        assert_eq!(version(&status), None);
        poll(&mut status, "0.3.5", false);
        assert_eq!(
            version(&status),
            None,
            "a pod of the old image may have responded"
        );
        poll(&mut status, "0.6.1", true);
        assert_eq!(version(&status).as_deref(), Some("0.6.1"));
    }
}

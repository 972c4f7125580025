//! The version and providers that the server reports.
//!
//! The version is that of the image in `status.resolvedDistribution`: it is recorded only when no other
//! pods can respond, and removed when the image changes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use llsd_api::conditions::{condition, reason};
use llsd_api::v1alpha2::{DistributionStatus, ResolvedDistribution, ServerProvider, Versions};

use super::conditions::Conditions;
use crate::servers::{LastPoll, ServerInfo};

/// The health that the server reports for a provider that does not work, and for one that does.
const FAILING: &str = "Error";
const HEALTHY: &str = "OK";

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
            // Nothing is known about the providers of a server that does not answer.
            conditions.remove(condition::PROVIDERS_HEALTHY);
            return;
        }
    };
    conditions.set(
        condition::SERVER_ANSWERS,
        true,
        reason::SERVER_ANSWERED,
        format!("release {version} with {} providers", providers.len()),
    );
    providers_healthy(conditions, providers);
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

/// Removes what a server without ready pods said before.
pub(super) fn forget(conditions: &mut Conditions) {
    conditions.remove(condition::SERVER_ANSWERS);
    conditions.remove(condition::PROVIDERS_HEALTHY);
}

/// Reports the providers that say they do not work. Many providers have no health check: they report
/// `Not Implemented`, which says nothing.
fn providers_healthy(conditions: &mut Conditions, providers: &[ServerProvider]) {
    let with = |status: &'static str| {
        let is = move |one: &&ServerProvider| one.health.status.eq_ignore_ascii_case(status);
        providers.iter().filter(is)
    };
    let failing: Vec<String> = with(FAILING).map(describe).collect();
    if failing.is_empty() {
        let (healthy, all) = (with(HEALTHY).count(), providers.len());
        conditions.set(
            condition::PROVIDERS_HEALTHY,
            true,
            reason::PROVIDERS_HEALTHY,
            format!(
                "{healthy} of {all} providers report that they work, the others report nothing"
            ),
        );
        return;
    }
    conditions.set(
        condition::PROVIDERS_HEALTHY,
        false,
        reason::PROVIDER_UNHEALTHY,
        failing.join("\n"),
    );
}

/// For example `provider "vllm" (remote::vllm) of the API "inference": connection refused`.
fn describe(provider: &ServerProvider) -> String {
    let ServerProvider {
        api,
        provider_id,
        provider_type,
        health,
        config: _,
    } = provider;
    let message = match health.message.trim() {
        "" => "reports an error without a message",
        message => message,
    };
    format!("provider {provider_id:?} ({provider_type}) of the API {api:?}: {message}")
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
    use llsd_api::v1alpha2::ProviderHealth;

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
    fn a_failing_provider_is_named_and_one_without_a_health_check_is_not() {
        let provider = |id: &str, status: &str, message: &str| ServerProvider {
            api: "inference".to_owned(),
            provider_id: id.to_owned(),
            provider_type: "remote::vllm".to_owned(),
            health: ProviderHealth {
                status: status.to_owned(),
                message: message.to_owned(),
            },
            ..ServerProvider::default()
        };
        let condition = |providers: &[ServerProvider]| {
            let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
            providers_healthy(&mut conditions, providers);
            let one = conditions.into_vec().remove(0);
            (one.status, one.message)
        };
        let silent = provider("a", "Not Implemented", "no health check");
        let broken = provider("b", "Error", "connection refused");
        let (status, message) = condition(&[silent.clone(), provider("c", "OK", ""), broken]);
        assert_eq!(
            (status.as_str(), message.as_str()),
            (
                "False",
                "provider \"b\" (remote::vllm) of the API \"inference\": connection refused"
            )
        );
        let (status, _) = condition(&[silent, provider("c", "OK", "")]);
        assert_eq!(status, "True");
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

//! Leader election with a Lease.
//!
//! Clocks of different nodes differ, so times in the Lease are written for humans and never compared
//! with the local clock. A replica takes the Lease over when it has not seen any change of it for the
//! duration that the holder promised, by its own monotonic clock. Every write names the resource
//! version that it replaces, so of two replicas that want the Lease at the same time only one gets it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// The name of the Lease.
const LEASE: &str = "llsd-operator";
/// How long a Lease is valid without renewal.
const DURATION: Duration = Duration::from_secs(15);
/// How long a leader goes on without a successful renewal. Shorter than the duration, so that it has
/// stopped before another replica takes over.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two renewals.
const RENEW_PERIOD: Duration = Duration::from_secs(5);
/// Time between two looks at the Lease of another replica, unless it expires sooner, and after a failure.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A replica that takes part in leader election.
pub(crate) struct LeaderElection {
    is_leader: watch::Receiver<bool>,
    stop: Arc<Notify>,
    /// The election. Dropping it ends the election without releasing the Lease.
    task: JoinSet<()>,
}

impl LeaderElection {
    /// Starts to take part under the name `identity`.
    pub(crate) fn join(client: Client, namespace: &str, identity: &str) -> Self {
        let candidate = Candidate {
            leases: Api::namespaced(client, namespace),
            identity: identity.to_owned(),
            observed: None,
        };
        let (sender, is_leader) = watch::channel(false);
        let stop = Arc::new(Notify::new());
        let task = JoinSet::from_iter([candidate.run(sender, stop.clone())]);
        Self {
            is_leader,
            stop,
            task,
        }
    }

    /// Waits until this replica is the leader.
    pub(crate) async fn acquire(&self) {
        if self.wait_for(true).await.is_err() {
            // The election task has ended, so this replica never becomes the leader.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this replica is not the leader any more.
    pub(crate) async fn lost(&self) {
        // The end of the election task is also the end of leadership.
        let _ = self.wait_for(false).await;
    }

    /// Whether this replica is the leader.
    pub(crate) fn is_leader(&self) -> bool {
        // An error means that the election task has ended.
        *self.is_leader.borrow() && self.is_leader.has_changed().is_ok()
    }

    /// Stops, and releases the Lease if this replica holds it.
    pub(crate) async fn release(mut self) {
        self.stop.notify_one();
        if let Some(Err(error)) = self.task.join_next().await {
            tracing::warn!(%error, "the leader election failed");
        }
    }

    async fn wait_for(&self, leader: bool) -> Result<(), watch::error::RecvError> {
        let mut is_leader = self.is_leader.clone();
        is_leader.wait_for(|is| *is == leader).await.map(drop)
    }
}

/// The newest version of the Lease, by the local monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Observation {
    version: Option<String>,
    /// When it was first seen.
    at: Instant,
    /// When it can be taken over from another replica, unless it changes before.
    expires: Instant,
}

/// What to do with the Lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    Renew,
    TakeOver,
    Wait,
}

struct Candidate {
    leases: Api<Lease>,
    identity: String,
    observed: Option<Observation>,
}

impl Candidate {
    async fn run(mut self, is_leader: watch::Sender<bool>, stop: Arc<Notify>) {
        let mut renewed: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            // Without an answer in time, leadership ends as after a failure.
            let attempt = tokio::time::timeout(RENEW_DEADLINE / 2, self.attempt());
            let is_held = match attempt.await {
                Ok(Ok(is_held)) => is_held,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to use the leader Lease, retrying");
                    None
                }
                Err(_) => None,
            };
            renewed = match is_held {
                Some(true) => Some(begun),
                Some(false) => None,
                None => renewed.filter(|renewed| renewed.elapsed() < RENEW_DEADLINE),
            };
            is_leader.send_if_modified(|was| {
                let is_changed = *was != renewed.is_some();
                *was = renewed.is_some();
                is_changed
            });
            let pause = if is_held == Some(true) {
                RENEW_PERIOD
            } else {
                retry_period(self.observed.as_ref(), Instant::now())
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.notified() => break,
            }
        }
        if renewed.is_some()
            && let Err(error) = self.release().await
        {
            tracing::warn!(%error, "failed to release the leader Lease");
        }
    }

    /// Takes or renews the Lease if possible. Returns whether this replica holds it; `None` if the Lease
    /// changed meanwhile, so that the next attempt tells.
    async fn attempt(&mut self) -> Result<Option<bool>, kube::Error> {
        let lease = self.leases.get_opt(LEASE).await?;
        let step = next_step(
            lease.as_ref(),
            &self.identity,
            &mut self.observed,
            Instant::now(),
        );
        let written = match (step, lease) {
            (Step::Create, _) | (_, None) => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(LEASE.to_owned()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(self.acquired(0)),
                };
                self.leases.create(&PostParams::default(), &lease).await
            }
            (Step::Renew, Some(lease)) => {
                let renewal = LeaseSpec {
                    renew_time: Some(MicroTime(Timestamp::now())),
                    lease_duration_seconds: Some(duration_seconds()),
                    ..LeaseSpec::default()
                };
                self.replace(&lease, &renewal).await
            }
            (Step::TakeOver, Some(lease)) => {
                let before = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
                let spec = self.acquired(before.unwrap_or_default().saturating_add(1));
                self.replace(&lease, &spec).await
            }
            (Step::Wait, Some(_)) => return Ok(Some(false)),
        };
        match written {
            Ok(_) => Ok(Some(true)),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn release(&self) -> Result<(), kube::Error> {
        let Some(lease) = self.leases.get_opt(LEASE).await? else {
            return Ok(());
        };
        if holder(&lease) != Some(&self.identity) {
            return Ok(());
        }
        let released = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": {"holderIdentity": null},
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&released));
        self.leases.patch(LEASE, &parameters, &patch).await?;
        Ok(())
    }

    /// Changes the Lease unless it changed since it was read.
    async fn replace(&self, lease: &Lease, spec: &LeaseSpec) -> Result<Lease, kube::Error> {
        let change = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": spec,
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&change));
        self.leases.patch(LEASE, &parameters, &patch).await
    }

    fn acquired(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_duration_seconds: Some(duration_seconds()),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

/// Decides what to do, and records when the Lease changed.
fn next_step(
    lease: Option<&Lease>,
    identity: &str,
    observed: &mut Option<Observation>,
    now: Instant,
) -> Step {
    let Some(lease) = lease else {
        return Step::Create;
    };
    let version = &lease.metadata.resource_version;
    let at = match observed {
        Some(known) if known.version == *version => known.at,
        _ => now,
    };
    let expires = at + promised(lease);
    *observed = Some(Observation {
        version: version.clone(),
        at,
        expires,
    });
    match holder(lease) {
        Some(holder) if holder == identity => Step::Renew,
        None => Step::TakeOver,
        Some(_) if now >= expires => Step::TakeOver,
        Some(_) => Step::Wait,
    }
}

/// The time until the next look at the Lease: when it expires, if that is soon.
fn retry_period(observed: Option<&Observation>, now: Instant) -> Duration {
    let left = observed.map(|one| one.expires.saturating_duration_since(now));
    // It has expired before if the last attempt failed.
    let left = left.filter(|left| !left.is_zero());
    left.map_or(RETRY_PERIOD, |left| left.min(RETRY_PERIOD))
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

/// How long the holder may go without a renewal.
fn promised(lease: &Lease) -> Duration {
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(DURATION, Duration::from_secs)
}

fn duration_seconds() -> i32 {
    i32::try_from(DURATION.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, version: &str, renewed: &str) -> Lease {
        let spec =
            json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
        let lease = json!({"metadata": {"name": LEASE, "resourceVersion": version}, "spec": spec});
        serde_json::from_value(lease).expect("a Lease")
    }

    #[test]
    fn a_lease_is_taken_over_when_no_change_was_seen_whatever_its_time_says() {
        for clock in ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
            let start = Instant::now();
            let mut observed = None;
            let mut look = |version: &str, second| {
                let lease = lease(Some("other"), version, clock);
                let now = start + Duration::from_secs(second);
                next_step(Some(&lease), "me", &mut observed, now)
            };
            assert_eq!(look("1", 0), Step::Wait, "{clock}");
            assert_eq!(look("1", 14), Step::Wait);
            assert_eq!(look("2", 16), Step::Wait, "renewed in between");
            assert_eq!(look("2", 30), Step::Wait);
            assert_eq!(look("2", 31), Step::TakeOver);
        }
    }

    #[test]
    fn the_last_look_at_a_lease_is_when_it_expires() {
        let start = Instant::now();
        let mut observed = None;
        let lease = lease(Some("other"), "1", "1970-01-01T00:00:00.000000Z");
        next_step(Some(&lease), "me", &mut observed, start);
        let period = |after| retry_period(observed.as_ref(), start + Duration::from_millis(after));
        assert_eq!(period(5_000), RETRY_PERIOD);
        assert_eq!(period(14_500), Duration::from_millis(500));
        assert_eq!(period(15_000), RETRY_PERIOD, "the attempt failed");
        assert_eq!(retry_period(None, start), RETRY_PERIOD);
    }

    #[test]
    fn a_released_lease_is_taken_at_once_and_an_own_one_is_renewed() {
        let now = Instant::now();
        let step = |lease: Option<&Lease>| next_step(lease, "me", &mut None, now);
        let clock = "1970-01-01T00:00:00.000000Z";
        assert_eq!(step(None), Step::Create);
        assert_eq!(step(Some(&lease(None, "1", clock))), Step::TakeOver);
        assert_eq!(step(Some(&lease(Some(""), "1", clock))), Step::TakeOver);
        assert_eq!(step(Some(&lease(Some("me"), "1", clock))), Step::Renew);
    }
}

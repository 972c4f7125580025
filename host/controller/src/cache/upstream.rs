//! Whether the operator whose resources we take over still runs.
//!
//! It holds a Lease while it does. Two operators would undo each other's work for ever, so ours
//! waits until the other is gone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::slim;

/// The Lease of the first operator, in the namespace where it runs.
pub(super) const LEASE: &str = "54e06e98.llamastack.io";
/// What Kubernetes assumes of a Lease that says nothing.
const DEFAULT_SECONDS: i32 = 15;
const HOLDER: &str = "holder";
const UNTIL: &str = "until";

/// The first operator, running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the operator that made these objects still runs: it holds the Lease {LEASE:?} in namespace {namespace:?} as {holder:?}; scale its Deployment there to zero, and this resource is taken over as it is"
)]
pub(crate) struct FirstOperator {
    namespace: String,
    holder: String,
    /// When its Lease ends, unless it goes on.
    pub(crate) until: Timestamp,
}

impl FirstOperator {
    /// What a Lease of the cache says.
    pub(super) fn of(lease: &DynamicObject, now: Timestamp) -> Option<Self> {
        let holder = lease.data[HOLDER].as_str()?.to_owned();
        let until: Timestamp = lease.data[UNTIL].as_str()?.parse().ok()?;
        (until > now).then(|| Self {
            namespace: lease.namespace().unwrap_or_default(),
            holder,
            until,
        })
    }
}

/// A Lease: who holds it, and until when.
pub(super) fn lease(lease: Lease) -> DynamicObject {
    let mut slim = slim::metadata(lease.metadata);
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let seconds = spec.lease_duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let until = spec.renew_time.and_then(|time| {
        time.0
            .checked_add(SignedDuration::from_secs(seconds.into()))
            .ok()
    });
    slim.data = json!({HOLDER: holder, UNTIL: until.map(|until| until.to_string())});
    slim
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(holder: &str, second: i64) -> bool {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:01:40.000000Z"});
        let object = json!({"metadata": {"name": LEASE, "namespace": "ns"}, "spec": spec});
        let slim = lease(serde_json::from_value(object).expect("a Lease"));
        let now = Timestamp::from_second(second).expect("a time");
        FirstOperator::of(&slim, now).is_some()
    }

    #[test]
    fn it_runs_until_its_lease_ends_or_is_released() {
        assert!(running("one", 114));
        assert!(!running("one", 115));
        assert!(!running("", 101));
    }
}

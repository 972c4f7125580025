//! What is known about llama-stack-k8s-operator, whose objects this operator adopts.
//!
//! While it runs it holds a leader Lease. Two operators would overwrite each other's changes
//! forever, so this one waits until the Lease expires or is released. Its field managers mark the
//! objects that it wrote.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use llsd_api::labels::FIELD_MANAGER;
use serde_json::json;

use super::projection;

/// The leader Lease of llama-stack-k8s-operator, in the namespace where it runs.
pub(super) const LEASE: &str = "54e06e98.llamastack.io";
/// The default that client-go assumes for a Lease without a duration.
const DEFAULT_SECONDS: i32 = 15;
/// The field manager of the objects that llama-stack-k8s-operator created: the name of its binary.
const UPSTREAM_MANAGER: &str = "manager";
const HOLDER: &str = "holder";
const UNTIL: &str = "until";

/// llama-stack-k8s-operator is running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "llama-stack-k8s-operator is still running: {holder:?} holds the Lease {LEASE:?} in namespace {namespace:?}; scale its Deployment to zero, and this operator adopts the resource without changing its pods"
)]
pub(crate) struct UpstreamRunning {
    namespace: String,
    holder: String,
    /// When its Lease expires, unless it is renewed.
    pub(crate) until: Timestamp,
}

impl UpstreamRunning {
    /// Reads a cached Lease. `None` if nobody holds it at time `now`.
    pub(super) fn from_lease(lease: &DynamicObject, now: Timestamp) -> Option<Self> {
        let holder = lease.data[HOLDER].as_str()?.to_owned();
        let until: Timestamp = lease.data[UNTIL].as_str()?.parse().ok()?;
        (until > now).then(|| Self {
            namespace: lease.namespace().unwrap_or_default(),
            holder,
            until,
        })
    }
}

/// The projection of a Lease: its holder, and when it expires.
pub(super) fn lease(lease: Lease) -> DynamicObject {
    let mut projected = projection::metadata(lease.metadata);
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let seconds = spec.lease_duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let until = spec.renew_time.and_then(|time| {
        time.0
            .checked_add(SignedDuration::from_secs(seconds.into()))
            .ok()
    });
    projected.data = json!({HOLDER: holder, UNTIL: until.map(|until| until.to_string())});
    projected
}

/// Whether an object may have fields of llama-stack-k8s-operator, so that its managed fields must
/// stay in the cache.
pub(super) fn may_need_adoption(metadata: &ObjectMeta) -> bool {
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.any(|entry| is_created_by_upstream(entry) || is_apply_of_another_manager(entry))
}

/// Whether an entry belongs to the request with which llama-stack-k8s-operator created the object.
pub(crate) fn is_created_by_upstream(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(UPSTREAM_MANAGER)
        && entry.operation.as_deref() == Some("Update")
        && entry.subresource.is_none()
}

/// Whether an entry belongs to a server-side apply of a field manager other than ours.
pub(crate) fn is_apply_of_another_manager(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Apply")
        && entry.subresource.is_none()
        && entry.manager.as_deref() != Some(FIELD_MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(holder: &str, second: i64) -> bool {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:01:40.000000Z"});
        let object = json!({"metadata": {"name": LEASE, "namespace": "ns"}, "spec": spec});
        let lease = lease(serde_json::from_value(object).expect("a Lease"));
        let now = Timestamp::from_second(second).expect("a time");
        UpstreamRunning::from_lease(&lease, now).is_some()
    }

    #[test]
    fn upstream_runs_until_its_lease_expires_or_is_released() {
        assert!(running("one", 114));
        assert!(!running("one", 115));
        assert!(!running("", 101));
    }
}

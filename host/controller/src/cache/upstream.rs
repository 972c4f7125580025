//! What is known about llama-stack-k8s-operator, whose objects this operator adopts.
//!
//! While it runs it holds a leader Lease. Two operators would overwrite each other's changes
//! forever, so this one waits until the Lease expires or is released. It serves all namespaces from
//! its own, so the Lease is watched in all namespaces, also by an operator for a single one. Its field
//! managers mark the objects that it wrote.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use llsd_api::labels::{self, FIELD_MANAGER, OGX_MANAGER};
use serde_json::json;

use super::projection;

/// The leader Lease of llama-stack-k8s-operator, in the namespace where it runs.
pub(super) const LEASE: &str = "54e06e98.llamastack.io";
/// The default that client-go assumes for a Lease without a duration.
const DEFAULT_SECONDS: i32 = 15;
/// A Lease that was renewed longer ago than this, by the clock of its holder, is abandoned. Clocks of
/// one cluster differ less.
const ABANDONED: SignedDuration = SignedDuration::from_mins(10);
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
    /// When its Lease expires, unless it is renewed, as an [`uptime`].
    pub(crate) until: Duration,
}

impl UpstreamRunning {
    /// Reads a cached Lease. `None` if nobody holds it at the [`uptime`] `now`.
    pub(super) fn from_lease(lease: &DynamicObject, now: Duration) -> Option<Self> {
        let holder = lease.data[HOLDER].as_str()?.to_owned();
        let until = Duration::from_millis(lease.data[UNTIL].as_u64()?);
        (until > now).then(|| Self {
            namespace: lease.namespace().unwrap_or_default(),
            holder,
            until,
        })
    }
}

/// The time since the first call, which no change of the system's clock affects.
pub(crate) fn uptime() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// The projection of a Lease: its holder, and when it expires.
pub(super) fn lease(lease: Lease) -> DynamicObject {
    observed_lease(lease, Timestamp::now(), uptime())
}

/// The holder renews its Lease by its own clock, which may differ from ours. So a Lease expires when no
/// change of it was observed for its duration.
fn observed_lease(lease: Lease, clock: Timestamp, observed: Duration) -> DynamicObject {
    let mut projected = projection::metadata(lease.metadata);
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let seconds = spec.lease_duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let renewed = spec.renew_time.map(|time| time.0);
    let is_held = renewed.is_some_and(|renewed| clock.duration_since(renewed) < ABANDONED);
    let until = is_held.then(|| u64::try_from((observed + duration).as_millis()).ok());
    projected.data = json!({HOLDER: holder, UNTIL: until.flatten()});
    projected
}

/// Whether an object may have fields of llama-stack-k8s-operator, so that its managed fields must
/// stay in the cache.
pub(super) fn may_need_adoption(metadata: &ObjectMeta) -> bool {
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.any(|entry| is_written_by_upstream(entry, None))
}

/// Whether an entry belongs to a request of llama-stack-k8s-operator: the one that created the object,
/// or an apply, whose field manager is the name of the resource. `None` for any resource. Its successor,
/// ogx-k8s-operator, applies with a fixed name.
///
/// Many operators have a field manager called `manager`. But only the one that made the object set its
/// owner and the labels of a child object. Some of them may have been removed since.
pub(crate) fn is_written_by_upstream(entry: &ManagedFieldsEntry, resource: Option<&str>) -> bool {
    let (manager, operation) = (entry.manager.as_deref(), entry.operation.as_deref());
    let is_upstream = may_be_of_upstream(manager, operation)
        && (operation != Some("Apply")
            || resource.is_none()
            || manager == resource
            || manager == Some(OGX_MANAGER));
    is_upstream && entry.subresource.is_none() && is_of_maker(entry)
}

/// Whether a request of llama-stack-k8s-operator can have this field manager, for any resource.
pub(super) fn may_be_of_upstream(manager: Option<&str>, operation: Option<&str>) -> bool {
    match operation {
        Some("Update") => manager == Some(UPSTREAM_MANAGER),
        Some("Apply") => manager != Some(FIELD_MANAGER),
        _ => false,
    }
}

fn is_of_maker(entry: &ManagedFieldsEntry) -> bool {
    let Some(FieldsV1(fields)) = &entry.fields_v1 else {
        return false;
    };
    let metadata = &fields["f:metadata"];
    let labels = [labels::MANAGED_BY, labels::PART_OF, labels::WATCH];
    let owns_label = |label: &str| !metadata["f:labels"][format!("f:{label}")].is_null();
    labels.into_iter().any(owns_label) || !metadata["f:ownerReferences"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Whether a Lease that was renewed at second 100, by the holder's clock, and observed at our second
    /// 1000 counts as held `later`.
    fn is_held(holder: &str, clock: i64, later: Duration) -> bool {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:01:40.000000Z"});
        let object = json!({"metadata": {"name": LEASE, "namespace": "ns"}, "spec": spec});
        let lease = serde_json::from_value(object).expect("a Lease");
        let clock = Timestamp::from_second(clock).expect("a time");
        let observed = 1000 * SECOND;
        let lease = observed_lease(lease, clock, observed);
        UpstreamRunning::from_lease(&lease, observed + later).is_some()
    }

    #[test]
    fn upstream_runs_until_its_lease_is_not_renewed_or_is_released() {
        assert!(is_held("one", 101, 14 * SECOND));
        assert!(!is_held("one", 101, 15 * SECOND));
        assert!(!is_held("", 101, SECOND));
    }

    #[test]
    fn a_clock_that_differs_by_minutes_does_not_change_who_holds_a_lease() {
        for clock in [100 - 300, 100 + 300] {
            assert!(is_held("one", clock, 14 * SECOND), "{clock}");
            assert!(!is_held("one", clock, 15 * SECOND), "{clock}");
        }
        assert!(!is_held("one", 100 + 3600, SECOND), "abandoned");
    }

    #[test]
    fn another_controller_called_manager_is_not_upstream() {
        let entry = |operation: &str, manager: &str, fields: serde_json::Value| {
            let entry = json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields});
            serde_json::from_value::<ManagedFieldsEntry>(entry).expect("an entry")
        };
        let created = json!({"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}});
        let edited = json!({"f:metadata": {"f:annotations": {"f:example.com/seen": {}}}});
        let is_upstream = |entry: &ManagedFieldsEntry| is_written_by_upstream(entry, Some("demo"));
        assert!(is_upstream(&entry("Update", "manager", created.clone())));
        assert!(is_upstream(&entry("Apply", "demo", created.clone())));
        let without_label = json!({"f:metadata": {"f:ownerReferences": {"k:{}": {}}}});
        assert!(is_upstream(&entry("Update", "manager", without_label)));
        let without_owner = json!({"f:metadata": {"f:labels": {"f:llamastack.io/watch": {}}}});
        assert!(is_upstream(&entry("Apply", "demo", without_owner)));
        assert!(!is_upstream(&entry("Update", "manager", edited.clone())));
        assert!(!is_upstream(&entry("Apply", "demo", edited)));
        assert!(is_upstream(&entry(
            "Apply",
            "ogx-operator",
            created.clone()
        )));
        assert!(!is_upstream(&entry("Apply", "argocd", created)));
    }
}

//! The newest status of each resource, including our own writes that the watch has not delivered yet.

use std::collections::HashMap;

use kube::api::ObjectMeta;
use llsd_api::Distribution;
use llsd_api::v1alpha2::DistributionStatus;
use parking_lot::Mutex;

/// The statuses that we wrote and the watch has not delivered yet, by uid of the resource.
#[derive(Default)]
pub(crate) struct StatusCache(Mutex<HashMap<String, Written>>);

struct Written {
    version: u64,
    status: DistributionStatus,
}

impl StatusCache {
    /// The newest status of a resource, and the resource version that it belongs to.
    pub(crate) fn newest(&self, cr: &Distribution) -> (DistributionStatus, String) {
        let mut all = self.0.lock();
        let uid = cr.metadata.uid.clone().unwrap_or_default();
        let watched = version(&cr.metadata);
        match all.get(&uid) {
            Some(written) if written.version > watched => {
                (written.status.clone(), written.version.to_string())
            }
            // The watch has caught up, so the entry is not needed any more.
            known => {
                if known.is_some() {
                    all.remove(&uid);
                }
                let version = cr.metadata.resource_version.clone();
                (
                    cr.status.clone().unwrap_or_default(),
                    version.unwrap_or_default(),
                )
            }
        }
    }

    /// Whether a version of a resource is the one with the status that we wrote. Forgets the status.
    pub(super) fn take_delivered(&self, uid: &str, version: &str) -> bool {
        let mut all = self.0.lock();
        let version = version.parse().ok();
        let is_own = all
            .get(uid)
            .is_some_and(|written| Some(written.version) == version);
        if is_own {
            all.remove(uid);
        }
        is_own
    }

    /// Stores a status that was written. `resource` is the API server's response.
    pub(crate) fn record(&self, resource: &ObjectMeta, status: DistributionStatus) {
        let written = Written {
            version: version(resource),
            status,
        };
        let uid = resource.uid.clone().unwrap_or_default();
        self.0.lock().insert(uid, written);
    }
}

fn version(metadata: &ObjectMeta) -> u64 {
    let version = metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(version: &str) -> Distribution {
        let resource = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version},
            "spec": {"distribution": {"name": "starter"}}, "status": {"observedGeneration": 1},
        });
        serde_json::from_value(resource).expect("a resource")
    }

    #[test]
    fn only_the_status_that_we_wrote_is_our_own() {
        let statuses = StatusCache::default();
        statuses.record(&resource("7").metadata, DistributionStatus::default());
        assert!(!statuses.take_delivered("u", "6"), "an older one");
        assert_eq!(statuses.newest(&resource("6")).1, "7");
        assert!(statuses.take_delivered("u", "7"));
        assert!(!statuses.take_delivered("u", "7"), "once");
        statuses.record(&resource("8").metadata, DistributionStatus::default());
        assert!(!statuses.take_delivered("u", "9"), "a newer one");
    }
}

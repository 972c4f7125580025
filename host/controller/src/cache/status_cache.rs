//! The newest status of each resource, including our own writes that the watch has not delivered yet.

use std::collections::HashMap;

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
        let watched = version(cr);
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

    /// Stores the API server's response to a status write.
    pub(crate) fn record(&self, cr: &Distribution) {
        let written = Written {
            version: version(cr),
            status: cr.status.clone().unwrap_or_default(),
        };
        let uid = cr.metadata.uid.clone().unwrap_or_default();
        self.0.lock().insert(uid, written);
    }
}

fn version(cr: &Distribution) -> u64 {
    let version = cr.metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

//! The newest status of each resource, which the watch may not have told of yet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use llsd_api::Distribution;
use llsd_api::v1alpha2::DistributionStatus;

/// What was written last, by uid.
#[derive(Default)]
pub(crate) struct Recent(Mutex<HashMap<String, Written>>);

struct Written {
    version: u64,
    status: DistributionStatus,
}

impl Recent {
    /// The newest status of a resource, and the version of the resource that it belongs to.
    pub(super) fn newest(&self, cr: &Distribution) -> (DistributionStatus, String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = cr.metadata.uid.clone().unwrap_or_default();
        let told = version(cr);
        match all.get(&uid) {
            Some(written) if written.version > told => {
                (written.status.clone(), written.version.to_string())
            }
            // The watch knows as much: there is nothing to remember.
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

    /// Takes what the API server answered to a write of ours.
    pub(super) fn record(&self, cr: &Distribution) {
        let written = Written {
            version: version(cr),
            status: cr.status.clone().unwrap_or_default(),
        };
        let uid = cr.metadata.uid.clone().unwrap_or_default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid, written);
    }
}

fn version(cr: &Distribution) -> u64 {
    let version = cr.metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

//! The PersistentVolumeClaim.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use llsd_api::checked::Checked;

use super::Owner;
use super::metadata::metadata;

/// Suffix of the name of the PersistentVolumeClaim.
pub const SUFFIX: &str = "-pvc";

pub(super) fn claim(checked: &Checked, owner: &Owner) -> Option<PersistentVolumeClaim> {
    let volume = checked.workload.volume.as_ref()?;
    Some(PersistentVolumeClaim {
        metadata: metadata(owner, SUFFIX),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), volume.size.clone())].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

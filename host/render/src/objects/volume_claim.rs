//! The PersistentVolumeClaim.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use llsd_api::checked::{Checked, CheckedVolume};

use super::Owner;
use super::metadata::metadata;

/// Suffix of the name of the PersistentVolumeClaim.
pub const SUFFIX: &str = "-pvc";

pub(super) fn claim(checked: &Checked, owner: &Owner) -> Option<PersistentVolumeClaim> {
    let volume = checked.workload.volume.as_ref()?;
    if volume.existing_claim.is_some() {
        return None;
    }
    let mut metadata = metadata(owner, SUFFIX);
    if volume.is_retained {
        // Without an owner, the garbage collector leaves it when the resource is deleted.
        metadata.owner_references = None;
    }
    let modes = volume.access_modes.iter();
    Some(PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(modes.map(|mode| mode.as_str().to_owned()).collect()),
            storage_class_name: volume.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), volume.size.clone())].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// The name of the claim that the pods mount.
pub(super) fn claim_name(volume: &CheckedVolume, owner: &Owner) -> String {
    match &volume.existing_claim {
        Some(name) => name.clone(),
        None => format!("{}{SUFFIX}", owner.name),
    }
}

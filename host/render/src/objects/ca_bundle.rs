//! The ConfigMap with the CA certificates that the server trusts, and its volume.

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, KeyToPath, Volume, VolumeMount,
};
use llsd_api::labels;

use super::metadata::{metadata, string_map};
use super::{Child, Kind, Need, Owner, Write};
use crate::ca_bundle::CaBundle;

/// Suffix of the ConfigMap of the certificates.
pub const SUFFIX: &str = "-ca-bundle";
/// Suffix of the ConfigMap of the certificates before the last change, for the way back.
pub const BACKUP_SUFFIX: &str = "-ca-bundle-previous";
/// Path of the certificates in the pod.
pub(super) const FILE: &str = "/etc/ssl/certs/ca-bundle/ca-bundle.crt";
const FOLDER: &str = "/etc/ssl/certs/ca-bundle";
/// The key of the certificates in both ConfigMaps.
pub const KEY: &str = "ca-bundle.crt";
/// Name of the volume, and the value of [`labels::COMPONENT`].
const NAME: &str = "ca-bundle";

pub(super) fn config_map(bundle: &CaBundle, owner: &Owner) -> ConfigMap {
    with_suffix(bundle, owner, SUFFIX)
}

/// The ConfigMap that keeps certificates for the way back.
pub fn ca_bundle_backup(bundle: &CaBundle, owner: &Owner) -> Child {
    let map = with_suffix(bundle, owner, BACKUP_SUFFIX);
    Child::new(Kind::ConfigMap, Write::Converge, Need::Essential, &map)
}

fn with_suffix(bundle: &CaBundle, owner: &Owner, suffix: &str) -> ConfigMap {
    let mut metadata = metadata(owner, suffix);
    let labels = [
        (labels::INSTANCE, owner.name.as_str()),
        (labels::COMPONENT, NAME),
    ];
    metadata
        .labels
        .get_or_insert_default()
        .extend(string_map(labels));
    ConfigMap {
        metadata,
        data: Some(string_map([(KEY, bundle.as_str())])),
        ..ConfigMap::default()
    }
}

pub(super) fn volume(owner: &Owner) -> Volume {
    Volume {
        name: NAME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: format!("{}{SUFFIX}", owner.name),
            items: Some(vec![KeyToPath {
                key: KEY.to_owned(),
                path: KEY.to_owned(),
                mode: None,
            }]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

pub(super) fn mount() -> VolumeMount {
    VolumeMount {
        name: NAME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

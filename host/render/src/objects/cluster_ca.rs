//! The volume with the CA certificates of the cluster.
//!
//! A server that accepts tokens of the cluster asks the API server about them, with the client's token. Its
//! pods have no token of their own, so the certificates come from the ConfigMap that every namespace has.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Volume, VolumeMount};
use llsd_api::checked::Checked;

/// Path of the certificates in the pod.
pub(crate) const FILE: &str = "/etc/kubernetes-ca/ca.crt";
const FOLDER: &str = "/etc/kubernetes-ca";
const VOLUME: &str = "kubernetes-ca";
/// The controller manager writes it into every namespace, with the key `ca.crt`.
const CONFIG_MAP: &str = "kube-root-ca.crt";

pub(super) fn volume(checked: &Checked) -> Option<Volume> {
    is_needed(checked).then(|| Volume {
        name: VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: CONFIG_MAP.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    })
}

pub(super) fn mount(checked: &Checked) -> Option<VolumeMount> {
    is_needed(checked).then(|| VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}

fn is_needed(checked: &Checked) -> bool {
    let access = checked.access.as_ref();
    access.is_some_and(|access| access.uses_own_cluster())
}

//! The volume with the serving certificate.

use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};
use llsd_api::checked::Checked;

/// Directory with `tls.crt` and `tls.key` in the pod. It is not inside the configuration directory,
/// which is mounted read-only and cannot contain another mount.
pub(crate) const FOLDER: &str = "/etc/llama-stack-tls";
const VOLUME: &str = "serving-certificate";

pub(super) fn volume(checked: &Checked) -> Option<Volume> {
    let secret = checked.networking.tls_secret.as_ref()?;
    Some(Volume {
        name: VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.clone()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    })
}

pub(super) fn mount(checked: &Checked) -> Option<VolumeMount> {
    checked.networking.tls_secret.as_ref()?;
    Some(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}

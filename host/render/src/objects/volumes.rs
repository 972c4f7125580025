//! The volumes and mounts of the pod: the operator's own, then the user's.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume,
    VolumeMount,
};
use llsd_api::checked::{Checked, DEFAULT_CONFIG_KEY, DEFAULT_MOUNT_PATH, SecretFile};
use llsd_api::{Diagnostic, Diagnostics, FieldPath};

use super::{
    ConfigPlan, ObjectInputs, ca_bundle, cluster_ca, config_map_name, external_providers,
    pod_template, secret_files, tls, volume_claim,
};
use crate::server_facts::EntryPoint;

/// Path of the server configuration file in the pod.
pub(crate) const CONFIG_FILE: &str = "/etc/llama-stack/config.yaml";
const CONFIG_FOLDER: &str = "/etc/llama-stack/";
/// Path of the configuration in the entry point of images that were built with the tool of 0.2.
const IMAGE_CONFIG_FILE: &str = "/app/run.yaml";
/// The directories below which a server that runs as root keeps its data.
const ROOT_FOLDERS: [&str; 2] = ["/root/.llama", "/root/.ogx"];
const CONFIG_VOLUME: &str = "user-config";
const DATA_VOLUME: &str = "lls-storage";

/// Path of the server's data in the pod, whether on a persistent volume or not.
pub(crate) fn data_folder(checked: &Checked) -> &str {
    checked
        .workload
        .volume
        .as_ref()
        .map_or(DEFAULT_MOUNT_PATH, |volume| &volume.mount_path)
}

/// All volumes of the pod.
pub(super) fn volumes(inputs: &ObjectInputs<'_>) -> Vec<Volume> {
    let users = &inputs.checked.workload.overrides.volumes;
    let mut volumes = own_volumes(inputs);
    volumes.extend(users.iter().flatten().cloned());
    volumes
}

/// All mounts of the server container.
pub(super) fn mounts(inputs: &ObjectInputs<'_>) -> Vec<VolumeMount> {
    let users = &inputs.checked.workload.overrides.volume_mounts;
    let mut mounts = own_mounts(inputs);
    mounts.extend(users.iter().flatten().cloned());
    mounts
}

/// Rejects volumes and mounts of the user that collide with the operator's: the API server would
/// reject the pods.
pub(super) fn check_collisions(inputs: &ObjectInputs<'_>) -> Result<(), Diagnostics> {
    let overrides = &inputs.checked.workload.overrides;
    let path = FieldPath::spec().at(&["workload", "overrides"]);
    let (own_volumes, own_mounts) = (own_volumes(inputs), own_mounts(inputs));
    let mut found = Vec::new();
    for (position, volume) in overrides.volumes.iter().flatten().enumerate() {
        if own_volumes.iter().any(|own| own.name == volume.name) {
            found.push(Diagnostic::error(
                path.field("volumes").index(position).field("name"),
                format!(
                    "the operator already uses the volume name {:?}",
                    volume.name
                ),
                "use another name",
            ));
        }
    }
    for (position, mount) in overrides.volume_mounts.iter().flatten().enumerate() {
        // Compares paths literally, as the API server does. A path that it accepts in another
        // spelling may already be in use.
        if own_mounts
            .iter()
            .any(|own| own.mount_path == mount.mount_path)
        {
            found.push(Diagnostic::error(
                path.field("volumeMounts")
                    .index(position)
                    .field("mountPath"),
                format!(
                    "the operator already mounts a volume at {:?}",
                    mount.mount_path
                ),
                "use another path",
            ));
        }
    }
    let folders = own_mounts.iter().filter(|own| own.sub_path.is_none());
    for file in secret_files::mounts(inputs.checked) {
        let is_hidden =
            |own: &&VolumeMount| own.name != file.name && pod_template::is_covered(own, &file);
        let Some(own) = folders.clone().find(is_hidden) else {
            continue;
        };
        let of_path = |one: &&SecretFile| one.requested_path.as_ref() == Some(&file.mount_path);
        let of_path = inputs.checked.secret_files().find(of_path);
        found.extend(of_path.map(|one| {
            Diagnostic::error(
                one.reference.path.field("path"),
                format!(
                    "the operator already mounts a volume at {:?}",
                    own.mount_path
                ),
                "use another path, or remove it",
            )
        }));
    }
    Diagnostics::new(found).map_or(Ok(()), Err)
}

/// The operator's volumes.
fn own_volumes(inputs: &ObjectInputs<'_>) -> Vec<Volume> {
    let volumes = [
        Some(data_volume(inputs)),
        inputs.ca_bundle.map(|_| ca_bundle::volume(inputs.owner)),
        config_volume(inputs),
        tls::volume(inputs.checked),
        cluster_ca::volume(inputs.checked),
        external_providers::volume(inputs),
        secret_files::volume(inputs.checked),
    ];
    volumes.into_iter().flatten().collect()
}

fn data_volume(inputs: &ObjectInputs<'_>) -> Volume {
    let mut data = Volume {
        name: DATA_VOLUME.to_owned(),
        ..Volume::default()
    };
    if let Some(volume) = &inputs.checked.workload.volume {
        data.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
            claim_name: volume_claim::claim_name(volume, inputs.owner),
            read_only: None,
        });
    } else {
        data.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    data
}

fn config_volume(inputs: &ObjectInputs<'_>) -> Option<Volume> {
    let name = match inputs.plan {
        ConfigPlan::Generated(generated) => config_map_name(&inputs.owner.name, &generated.yaml),
        ConfigPlan::Override { config_map, .. } => config_map.clone(),
        ConfigPlan::DistributionDefault => return None,
    };
    Some(Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name,
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    })
}

/// The operator's mounts.
fn own_mounts(inputs: &ObjectInputs<'_>) -> Vec<VolumeMount> {
    let checked = inputs.checked;
    let data = VolumeMount {
        name: DATA_VOLUME.to_owned(),
        mount_path: data_folder(checked).to_owned(),
        ..VolumeMount::default()
    };
    let config = (*inputs.plan != ConfigPlan::DistributionDefault).then(|| VolumeMount {
        name: CONFIG_VOLUME.to_owned(),
        mount_path: CONFIG_FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    let mounts = [
        Some(data),
        config,
        inputs.ca_bundle.map(|_| ca_bundle::mount()),
        tls::mount(checked),
        cluster_ca::mount(checked),
        external_providers::mount(inputs),
    ];
    let mounts = mounts.into_iter().flatten();
    let mounts = mounts.chain(image_config_mount(inputs));
    let mounts = mounts.chain(root_mounts(inputs));
    mounts.chain(secret_files::mounts(checked)).collect()
}

/// Replaces the configuration in the image by that of the user, if the entry point may ignore the
/// variable with its path.
fn image_config_mount(inputs: &ObjectInputs<'_>) -> Option<VolumeMount> {
    let is_needed = matches!(inputs.plan, ConfigPlan::Override { .. })
        && inputs.server.entry_point == EntryPoint::Unknown;
    (is_needed && !is_mounted_by_user(inputs.checked, IMAGE_CONFIG_FILE)).then(|| VolumeMount {
        name: CONFIG_VOLUME.to_owned(),
        mount_path: IMAGE_CONFIG_FILE.to_owned(),
        sub_path: Some(DEFAULT_CONFIG_KEY.to_owned()),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}

/// Mounts the persistent volume where a server that runs as root keeps its data. Only for a server
/// whose configuration is not known: otherwise variables lead its data to the volume.
fn root_mounts(inputs: &ObjectInputs<'_>) -> impl Iterator<Item = VolumeMount> {
    let checked = inputs.checked;
    let is_needed = *inputs.plan == ConfigPlan::DistributionDefault
        && checked.workload.volume.is_some()
        && inputs.server.data_folders.is_none();
    ROOT_FOLDERS
        .into_iter()
        .filter(move |path| {
            is_needed && data_folder(checked) != *path && !is_mounted_by_user(checked, path)
        })
        .map(|path| VolumeMount {
            name: DATA_VOLUME.to_owned(),
            mount_path: path.to_owned(),
            ..VolumeMount::default()
        })
}

/// Whether a mount of the user covers a path, or is below it.
fn is_mounted_by_user(checked: &Checked, path: &str) -> bool {
    let covers = |one: &str, other: &str| {
        let one = one.trim_end_matches('/');
        other
            .strip_prefix(one)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mounts = checked.workload.overrides.volume_mounts.iter().flatten();
    let mut paths = mounts.map(|mount| mount.mount_path.as_str());
    paths.any(|mount| covers(mount, path) || covers(path, mount))
}

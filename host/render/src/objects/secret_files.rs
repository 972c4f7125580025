//! The volume with the keys of Secrets that providers read as files.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    KeyToPath, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount, VolumeProjection,
};
use llsd_api::checked::{Checked, SECRET_FILES_FOLDER};

const VOLUME: &str = "secret-files";

/// One volume for the files of all providers.
pub(super) fn volume(checked: &Checked) -> Option<Volume> {
    let files: BTreeSet<_> = checked
        .secret_files()
        .map(|file| (&file.relative_path, &file.reference))
        .map(|(path, reference)| (path, &reference.secret, &reference.key))
        .collect();
    let sources: Vec<VolumeProjection> = files
        .into_iter()
        .map(|(path, secret, key)| VolumeProjection {
            secret: Some(SecretProjection {
                name: secret.clone(),
                items: Some(vec![KeyToPath {
                    key: key.clone(),
                    path: path.clone(),
                    mode: None,
                }]),
                optional: None,
            }),
            ..VolumeProjection::default()
        })
        .collect();
    (!sources.is_empty()).then(|| Volume {
        name: VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources),
            default_mode: None,
        }),
        ..Volume::default()
    })
}

/// The mount of all files, and one for each file with a path of its own.
pub(super) fn mounts(checked: &Checked) -> Vec<VolumeMount> {
    let mount = |path: String, file: Option<String>| VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: path,
        sub_path: file,
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let own = checked.secret_files().filter_map(|file| {
        let path = file.requested_path.clone()?;
        Some(mount(path, Some(file.relative_path.clone())))
    });
    let is_needed = checked.secret_files().next().is_some();
    let folder = is_needed.then(|| mount(SECRET_FILES_FOLDER.to_owned(), None));
    folder.into_iter().chain(own).collect()
}

/// The variables with the paths of files.
pub(super) fn variables(checked: &Checked) -> impl Iterator<Item = (&str, String)> {
    checked
        .secret_files()
        .filter_map(|file| Some((file.variable.as_deref()?, file.path())))
}

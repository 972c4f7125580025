//! External providers: init containers copy their files from provider images and install them before
//! the server starts.
//!
//! A provider image needs only a shell and its files. The server image installs the packages, so that
//! they match its Python interpreter. All packages come from the images; no package index is used.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use llsd_api::checked::CheckedExternal;
use llsd_api::v1alpha2::PullPolicy;

use super::{ObjectInputs, pod, security};

/// Directory of the installed packages in the pod.
pub(super) const PACKAGES: &str = "/opt/llama-stack/external-providers/python-packages";
const FOLDER: &str = "/opt/llama-stack/external-providers";
const VOLUME: &str = "external-providers";
/// More than any known provider with its dependencies needs.
const VOLUME_SIZE: &str = "2Gi";

/// Copies the files of one image. `$1` is the target directory.
const COPY: &str = "mkdir -p \"$1\" && cp -R /lls-provider/. \"$1\"";
/// Installs the packages of each directory, in order. `$1` is the target; the rest are directories.
const INSTALL: &str = r#"set -e
target="$1"; shift
mkdir -p "$target"
for folder in "$@"; do
  if python3 -m pip --version >/dev/null 2>&1; then
    python3 -m pip install --no-index --no-deps --no-cache-dir --upgrade --target "$target" "$folder"/packages/*.whl
  else
    uv pip install --no-index --no-deps --no-cache --target "$target" "$folder"/packages/*.whl
  fi
done"#;

/// Name of the init container that copies a provider.
pub fn init_container_name(id: &str) -> String {
    format!("install-provider-{id}")
}

/// One container that copies each provider, in the order of the resource, and one that installs them
/// all.
pub(super) fn init_containers(inputs: &ObjectInputs<'_>) -> Option<Vec<Container>> {
    let external = &inputs.checked.external;
    if external.is_empty() {
        return None;
    }
    let copy = external.iter().map(|provider| Container {
        name: init_container_name(provider.id.as_str()),
        image: Some(provider.image.clone()),
        image_pull_policy: Some(policy(provider.image_pull_policy).to_owned()),
        command: Some(shell(COPY, [folder(provider)])),
        security_context: Some(security::copy_context(inputs)),
        ..container()
    });
    let folders = [PACKAGES.to_owned()]
        .into_iter()
        .chain(external.iter().map(folder));
    let install = Container {
        name: "install-packages".to_owned(),
        image: Some(inputs.image.to_owned()),
        command: Some(shell(INSTALL, folders)),
        security_context: Some(security::server_context(inputs)),
        ..container()
    };
    Some(copy.chain([install]).collect())
}

pub(super) fn volume(inputs: &ObjectInputs<'_>) -> Option<Volume> {
    (!inputs.checked.external.is_empty()).then(|| Volume {
        name: VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(VOLUME_SIZE.to_owned())),
            medium: None,
        }),
        ..Volume::default()
    })
}

pub(super) fn mount(inputs: &ObjectInputs<'_>) -> Option<VolumeMount> {
    (!inputs.checked.external.is_empty()).then(|| VolumeMount {
        read_only: Some(true),
        ..writable()
    })
}

/// Prepends the packages to the user's `PYTHONPATH`.
pub(super) fn extend_path(variables: &mut Vec<EnvVar>) {
    const PATH: &str = "PYTHONPATH";
    let earlier = variables.iter_mut().find(|one| one.name == PATH);
    let old = earlier.as_ref().and_then(|one| one.value.clone());
    let value = Some(match old.filter(|old| !old.is_empty()) {
        Some(old) => format!("{PACKAGES}:{old}"),
        None => PACKAGES.to_owned(),
    });
    match earlier {
        Some(variable) => {
            variable.value = value;
            variable.value_from = None;
        }
        None => variables.push(EnvVar {
            name: PATH.to_owned(),
            value,
            value_from: None,
        }),
    }
}

fn folder(provider: &CheckedExternal) -> String {
    format!("{FOLDER}/providers/{}", provider.id)
}

fn shell(script: &str, arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    ["/bin/sh", "-c", script, "sh"]
        .map(str::to_owned)
        .into_iter()
        .chain(arguments)
        .collect()
}

fn container() -> Container {
    let amounts = |pairs: &[(&str, &str)]| {
        Some(
            pairs
                .iter()
                .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
                .collect(),
        )
    };
    Container {
        resources: Some(ResourceRequirements {
            requests: amounts(&[("cpu", "100m"), ("memory", "256Mi")]),
            limits: amounts(&[("memory", "512Mi")]),
            claims: None,
        }),
        termination_message_policy: Some(pod::TERMINATION_MESSAGE_POLICY.to_owned()),
        volume_mounts: Some(vec![writable()]),
        ..Container::default()
    }
}

fn writable() -> VolumeMount {
    VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        ..VolumeMount::default()
    }
}

fn policy(policy: PullPolicy) -> &'static str {
    match policy {
        PullPolicy::Always => "Always",
        PullPolicy::Never => "Never",
        PullPolicy::IfNotPresent => "IfNotPresent",
    }
}

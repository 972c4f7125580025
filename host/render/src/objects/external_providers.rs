//! Providers that arrive in images of their own: brought into the pod and installed before the
//! server starts.
//!
//! Each image needs no more than a shell and its files. The packages are installed by the image of
//! the server, so that they fit its interpreter; everything comes with the images, and no package
//! index is asked.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, ResourceRequirements, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use llsd_api::checked::CheckedExternal;
use llsd_api::v1alpha2::PullPolicy;

use super::{ObjectInputs, pod};

/// Where the server finds what was installed.
pub(super) const PACKAGES: &str = "/opt/llama-stack/external-providers/python-packages";
const FOLDER: &str = "/opt/llama-stack/external-providers";
const VOLUME: &str = "external-providers";
/// More than any provider with its dependencies has needed.
const VOLUME_SIZE: &str = "2Gi";
/// The user of the published images; the files of a provider's image need not be writable.
const USER: i64 = 1001;

/// Copies the files of one image. `$1` is the folder for it.
const BRING: &str = "mkdir -p \"$1\" && cp -R /lls-provider/. \"$1\"";
/// Installs the packages of each folder, in order. `$1` is where to, the others are the folders.
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

/// Name of the container that brings a provider.
pub fn init_container(id: &str) -> String {
    format!("install-provider-{id}")
}

/// One container for each provider, in the order of the resource, and one that installs them all.
pub(super) fn init_containers(inputs: &ObjectInputs<'_>) -> Option<Vec<Container>> {
    let external = &inputs.checked.external;
    if external.is_empty() {
        return None;
    }
    let bring = external.iter().map(|provider| Container {
        name: init_container(provider.id.as_str()),
        image: Some(provider.image.clone()),
        image_pull_policy: Some(policy(provider.image_pull_policy).to_owned()),
        command: Some(shell(BRING, [folder(provider)])),
        security_context: Some(SecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            ..pod::confined()
        }),
        ..container()
    });
    let folders = [PACKAGES.to_owned()]
        .into_iter()
        .chain(external.iter().map(folder));
    let install = Container {
        name: "install-packages".to_owned(),
        image: Some(inputs.image.to_owned()),
        command: Some(shell(INSTALL, folders)),
        security_context: Some(pod::confined()),
        ..container()
    };
    Some(bring.chain([install]).collect())
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

/// Puts the packages before those that the user has put there.
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

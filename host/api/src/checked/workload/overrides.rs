//! Checks `spec.workload.overrides`.

use std::collections::BTreeMap;

use crate::checked::secrets::{Reference, VARIABLE_PREFIX};
use crate::checked::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
use crate::v1alpha2::Overrides;

/// Checks the overrides of the pod template.
pub(super) fn check_overrides(
    overrides: &Overrides,
    path: &FieldPath,
    diagnostics: &mut Collector,
) {
    let Overrides {
        service_account_name,
        container_name,
        env,
        command: _,
        args: _,
        volumes,
        volume_mounts,
        run_as_user: _,
        termination_grace_period_seconds: _,
        image_pull_secrets,
    } = overrides;
    if let Some(name) = service_account_name
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        let fix = "use the name of a ServiceAccount";
        untyped::check_string(
            name,
            &path.field("serviceAccountName"),
            names::subdomain(name),
            fix,
            diagnostics,
        );
    }
    if let Some(name) = container_name.as_deref().filter(|name| !name.is_empty()) {
        untyped::check_string(
            name,
            &path.field("containerName"),
            names::label(name),
            "use lower-case letters, digits and \"-\"",
            diagnostics,
        );
    }
    for (position, variable) in env.iter().flatten().enumerate() {
        let path = path.field("env").index(position).field("name");
        if let Err(error) = names::variable(&variable.name) {
            diagnostics.error(
                &path,
                format!("{:?} {error}", variable.name),
                "use letters, digits and \"_\"",
            );
        } else if variable.name.starts_with(VARIABLE_PREFIX) {
            let problem = format!(
                "{:?} starts with {VARIABLE_PREFIX}, which is reserved for the operator",
                variable.name
            );
            diagnostics.error(&path, problem, "use another name");
        }
    }
    let volumes = volumes.iter().flatten().map(|volume| volume.name.as_str());
    check_unique(volumes, &path.field("volumes"), "name", diagnostics);
    let mounts = volume_mounts
        .iter()
        .flatten()
        .map(|mount| mount.mount_path.as_str());
    check_unique(
        mounts.clone(),
        &path.field("volumeMounts"),
        "mountPath",
        diagnostics,
    );
    for (position, mount) in mounts.enumerate() {
        check_mount_path(
            mount,
            &path
                .field("volumeMounts")
                .index(position)
                .field("mountPath"),
            diagnostics,
        );
    }
    for (position, secret) in image_pull_secrets.iter().flatten().enumerate() {
        let path = path.field("imagePullSecrets").index(position).field("name");
        untyped::check_string(
            &secret.name,
            &path,
            names::subdomain(&secret.name),
            "use the name of a Secret",
            diagnostics,
        );
    }
}

/// The Secret keys that environment variables need.
pub(super) fn secret_references(overrides: &Overrides) -> Vec<Reference> {
    let path = FieldPath::spec().at(&["workload", "overrides", "env"]);
    let variables = overrides.env.iter().flatten().enumerate();
    let needed = variables.filter_map(|(position, variable)| {
        let source = variable.value_from.as_ref()?.secret_key_ref.as_ref()?;
        (source.optional != Some(true)).then(|| Reference {
            path: path.index(position).at(&["valueFrom", "secretKeyRef"]),
            secret: source.name.clone(),
            key: source.key.clone(),
            env: variable.name.clone(),
        })
    });
    needed.collect()
}

/// Checks a mount path. An empty path means the default, as in v1alpha1.
pub(super) fn check_mount_path(mount: &str, path: &FieldPath, diagnostics: &mut Collector) {
    if !mount.is_empty() && (!mount.starts_with('/') || mount.contains(':')) {
        diagnostics.violation(&rules::ABSOLUTE_MOUNT, path);
    }
}

fn check_unique<'a>(
    names: impl Iterator<Item = &'a str>,
    list: &FieldPath,
    field: &str,
    diagnostics: &mut Collector,
) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, name) in names.enumerate() {
        match seen.get(name) {
            Some(first) => {
                let problem = format!("{name:?} is already the {field} of {}", list.index(*first));
                diagnostics.error(
                    &list.index(position).field(field),
                    problem,
                    "change one of the two",
                );
            }
            None => {
                seen.insert(name, position);
            }
        }
    }
}

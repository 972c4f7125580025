//! Merges `spec.workload.podTemplate` over the operator's pod template.
//!
//! Lists are merged by the keys of Kubernetes: containers, volumes and variables by name, mounts by path.
//! Lists without keys are replaced.

use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{
    Container, LifecycleHandler, PodSpec, PodTemplateSpec, Probe, VolumeMount,
};
use llsd_api::{Diagnostic, Diagnostics, FieldPath};

use super::{ObjectInputs, external_providers, volumes};

/// Merges the template of the resource over the operator's.
pub(super) fn merge(inputs: &ObjectInputs<'_>, mut template: PodTemplateSpec) -> PodTemplateSpec {
    let Some(theirs) = &inputs.checked.workload.pod_template else {
        return template;
    };
    if let (Some(own), Some(theirs)) = (&mut template.spec, &theirs.template.spec) {
        yield_handlers(own, theirs);
    }
    template.merge_from(theirs.template.clone());
    template
}

/// Removes the operator's probes and hooks for which the resource has another kind of request: merged,
/// they would have two.
fn yield_handlers(own: &mut PodSpec, theirs: &PodSpec) {
    for container in &mut own.containers {
        let name = &container.name;
        let Some(theirs) = theirs.containers.iter().find(|one| one.name == *name) else {
            continue;
        };
        let Container {
            startup_probe,
            readiness_probe,
            liveness_probe,
            lifecycle,
            ..
        } = container;
        for (own, theirs) in [
            (startup_probe, &theirs.startup_probe),
            (readiness_probe, &theirs.readiness_probe),
            (liveness_probe, &theirs.liveness_probe),
        ] {
            if let (Some(own), Some(theirs)) = (own, theirs)
                && has_request(theirs)
            {
                (own.http_get, own.exec, own.grpc, own.tcp_socket) = (None, None, None, None);
            }
        }
        let stops = theirs.lifecycle.as_ref();
        if let (Some(own), true) = (lifecycle, stops.is_some_and(|one| one.pre_stop.is_some())) {
            own.pre_stop = Some(LifecycleHandler::default());
        }
    }
}

fn has_request(probe: &Probe) -> bool {
    probe.http_get.is_some()
        || probe.exec.is_some()
        || probe.grpc.is_some()
        || probe.tcp_socket.is_some()
}

/// Whether a mount is at the path of the operator's, or hides a part of its files: those of a read-only
/// mount are the configuration and certificates.
pub(super) fn is_covered(own: &VolumeMount, theirs: &VolumeMount) -> bool {
    let (own_path, path) = (parts(&own.mount_path), parts(&theirs.mount_path));
    own_path == path || (own.read_only == Some(true) && path.starts_with(&own_path))
}

/// The names in a path, after `.` and `..` are resolved.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts
}

/// Rejects what collides with the operator's pod.
pub(super) fn check_collisions(inputs: &ObjectInputs<'_>) -> Result<(), Diagnostics> {
    let Some(theirs) = &inputs.checked.workload.pod_template else {
        return Ok(());
    };
    let mut found = Vec::new();
    let path = FieldPath::spec().at(&["workload", "podTemplate", "spec"]);
    let spec = theirs.template.spec.iter();
    let in_use = |field: FieldPath, what: &str| {
        let fix = "use another name or path";
        Diagnostic::error(field, format!("the operator already uses {what}"), fix)
    };
    let (own_volumes, own_mounts) = (volumes::volumes(inputs), volumes::mounts(inputs));
    for (position, volume) in spec
        .clone()
        .flat_map(|one| one.volumes.iter().flatten())
        .enumerate()
    {
        if own_volumes.iter().any(|own| own.name == volume.name) {
            let field = path.field("volumes").index(position).field("name");
            found.push(in_use(field, &format!("the volume {:?}", volume.name)));
        }
    }
    let own_steps = external_providers::init_containers(inputs).unwrap_or_default();
    let steps = spec
        .clone()
        .flat_map(|one| one.init_containers.iter().flatten());
    for (position, step) in steps.enumerate() {
        if own_steps.iter().any(|own| own.name == step.name) {
            let field = path.field("initContainers").index(position).field("name");
            found.push(in_use(
                field,
                &format!("the init container {:?}", step.name),
            ));
        }
    }
    let server = inputs.checked.workload.container_name();
    let containers = spec.flat_map(|one| &one.containers).enumerate();
    for (position, container) in containers.filter(|(_, one)| one.name == server) {
        let path = path
            .field("containers")
            .index(position)
            .field("volumeMounts");
        for (position, mount) in container.volume_mounts.iter().flatten().enumerate() {
            if own_mounts.iter().any(|own| is_covered(own, mount)) {
                let field = path.index(position).field("mountPath");
                found.push(in_use(field, &format!("the path {:?}", mount.mount_path)));
            }
        }
    }
    Diagnostics::new(found).map_or(Ok(()), Err)
}

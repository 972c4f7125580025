//! Checks `spec.workload.podTemplate`: a partial pod template that is merged over the operator's.
//!
//! In: the object as written. Out: the typed template, and the fields with which pods reach beyond their
//! namespace. The operator creates pods with its own permissions, so it would do for the author what the
//! cluster does not let the author do: such fields need the consent of the installer, which `render` checks.
//! What the operator itself sets is rejected here.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, SecurityContext};
use serde_json::{Map, Value};

use crate::checked::secrets::VARIABLE_PREFIX;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::labels;
use crate::names;

/// Name of the server container unless the resource sets it.
pub(super) const DEFAULT_CONTAINER: &str = "llama-stack";
/// Annotations of the operator start with one of these.
const OWN_ANNOTATIONS: [&str; 3] = ["configmap.hash/", "secret.hash/", "llamastack.io/"];

/// A partial pod template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedPodTemplate {
    /// The template, as Kubernetes reads it.
    pub template: PodTemplateSpec,
    /// The fields that need the consent of the installer, in the order of the template.
    pub privileged: Vec<FieldPath>,
}

impl CheckedPodTemplate {
    /// The entry of a container, if there is one.
    pub fn container(&self, name: &str) -> Option<&Container> {
        let spec = self.template.spec.as_ref()?;
        spec.containers.iter().find(|one| one.name == name)
    }
}

/// Checks the template. `server` is the name of the server container.
pub(super) fn check(
    written: &Map<String, Value>,
    server: &str,
    diagnostics: &mut Collector,
) -> Option<CheckedPodTemplate> {
    let path = FieldPath::spec().at(&["workload", "podTemplate"]);
    let written = Value::Object(written.clone());
    let template: PodTemplateSpec = match serde_json::from_value(written.clone()) {
        Ok(template) => template,
        Err(error) => {
            diagnostics.error(
                &path,
                format!("is not a pod template: {error}"),
                "write it as in a Deployment; kubectl explain deployment.spec.template describes it",
            );
            return None;
        }
    };
    let read = serde_json::to_value(&template).unwrap_or_default();
    check_unknown(&written, &read, &path, diagnostics);
    check_metadata(&template, &path.field("metadata"), diagnostics);
    let mut privileged = Vec::new();
    if let Some(spec) = &template.spec {
        let path = path.field("spec");
        check_spec(spec, server, &path, diagnostics);
        collect_privileged(spec, &path, &mut privileged);
    }
    Some(CheckedPodTemplate {
        template,
        privileged,
    })
}

/// Rejects what the template has and Kubernetes does not read: it would have no effect.
fn check_unknown(written: &Value, read: &Value, path: &FieldPath, diagnostics: &mut Collector) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (key, value) in written {
                let path = path.field(key);
                match read.get(key) {
                    Some(read) => check_unknown(value, read, &path, diagnostics),
                    None if value.is_null() => {}
                    None => diagnostics.error(
                        &path,
                        "is not a field of a pod template",
                        "remove it, or correct its name",
                    ),
                }
            }
        }
        (Value::Array(written), Value::Array(read)) => {
            for (position, (written, read)) in written.iter().zip(read).enumerate() {
                check_unknown(written, read, &path.index(position), diagnostics);
            }
        }
        _ => {}
    }
}

fn check_metadata(template: &PodTemplateSpec, path: &FieldPath, diagnostics: &mut Collector) {
    let Some(metadata) = &template.metadata else {
        return;
    };
    let own = "belongs to the operator";
    for key in metadata.labels.iter().flatten().map(|(key, _)| key) {
        if [labels::APP, labels::INSTANCE].contains(&key.as_str()) {
            let path = path.at(&["labels", key]);
            diagnostics.error(&path, own, "remove it, or use another label");
        }
    }
    for key in metadata.annotations.iter().flatten().map(|(key, _)| key) {
        if OWN_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix)) {
            let path = path.at(&["annotations", key]);
            diagnostics.error(&path, own, "remove it, or use another annotation");
        }
    }
    let others = [
        ("name", metadata.name.is_some()),
        ("namespace", metadata.namespace.is_some()),
        ("finalizers", metadata.finalizers.is_some()),
        ("ownerReferences", metadata.owner_references.is_some()),
    ];
    for (field, _) in others.into_iter().filter(|(_, is_set)| *is_set) {
        diagnostics.error(&path.field(field), own, "remove it");
    }
}

fn check_spec(spec: &PodSpec, server: &str, path: &FieldPath, diagnostics: &mut Collector) {
    let containers = path.field("containers");
    for (position, container) in spec.containers.iter().enumerate() {
        let path = containers.index(position);
        check_name(&container.name, &path, diagnostics);
        if container.name == server {
            check_server(container, &path, diagnostics);
        } else {
            check_image(container, &path, diagnostics);
        }
    }
    for (position, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = path.field("initContainers").index(position);
        check_name(&container.name, &path, diagnostics);
        check_image(container, &path, diagnostics);
    }
    if spec.ephemeral_containers.is_some() {
        diagnostics.error(
            &path.field("ephemeralContainers"),
            "cannot be part of a template",
            "remove it, and use kubectl debug",
        );
    }
}

fn check_name(name: &str, path: &FieldPath, diagnostics: &mut Collector) {
    if let Err(error) = names::label(name) {
        let problem = format!("{name:?} {error}");
        let fix = "use the name of a container; lists of containers are merged by name";
        diagnostics.error(&path.field("name"), problem, fix);
    }
}

/// A container that the operator does not create.
fn check_image(container: &Container, path: &FieldPath, diagnostics: &mut Collector) {
    if container.image.as_ref().is_none_or(String::is_empty) {
        let problem = format!(
            "is missing, and {:?} is not the server container",
            container.name
        );
        let fix = "add the image of the container, or correct its name";
        diagnostics.error(&path.field("image"), problem, fix);
    }
}

/// What the operator sets in the server container.
fn check_server(container: &Container, path: &FieldPath, diagnostics: &mut Collector) {
    let owned = [
        ("image", container.image.is_some(), "spec.distribution"),
        (
            "command",
            container.command.is_some(),
            "spec.workload.overrides.command",
        ),
        (
            "args",
            container.args.is_some(),
            "spec.workload.overrides.args",
        ),
        (
            "env",
            container.env.is_some(),
            "spec.workload.overrides.env, or envFrom here",
        ),
    ];
    for (field, _, instead) in owned.into_iter().filter(|(_, is_set, _)| *is_set) {
        diagnostics.error(
            &path.field(field),
            "belongs to the operator in the server container",
            format!("remove it, and use {instead}"),
        );
    }
    for (position, source) in container.env_from.iter().flatten().enumerate() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if prefix.starts_with(VARIABLE_PREFIX) {
            diagnostics.error(
                &path.field("envFrom").index(position).field("prefix"),
                format!("starts with {VARIABLE_PREFIX}, which is reserved for the operator"),
                "use another prefix",
            );
        }
    }
}

/// The fields with which pods reach beyond their namespace.
fn collect_privileged(spec: &PodSpec, path: &FieldPath, found: &mut Vec<FieldPath>) {
    let context = spec.security_context.as_ref();
    let is_host_process = context
        .and_then(|context| context.windows_options.as_ref())
        .is_some_and(|options| options.host_process == Some(true));
    let of_pod = [
        ("hostNetwork", spec.host_network == Some(true)),
        ("hostPID", spec.host_pid == Some(true)),
        ("hostIPC", spec.host_ipc == Some(true)),
        ("nodeName", spec.node_name.is_some()),
        ("serviceAccountName", spec.service_account_name.is_some()),
        ("serviceAccount", spec.service_account.is_some()),
        (
            "securityContext",
            is_host_process
                || context.is_some_and(|context| {
                    is_unconfined(context.seccomp_profile.as_ref().map(|one| &one.type_))
                        || is_unconfined(context.app_armor_profile.as_ref().map(|one| &one.type_))
                        || context.sysctls.is_some()
                        || context.se_linux_options.is_some()
                }),
        ),
    ];
    let of_pod = of_pod.into_iter().filter(|(_, is_set)| *is_set);
    found.extend(of_pod.map(|(field, _)| path.field(field)));
    for (position, volume) in spec.volumes.iter().flatten().enumerate() {
        if volume.host_path.is_some() {
            found.push(path.field("volumes").index(position).field("hostPath"));
        }
    }
    let lists = [
        ("containers", spec.containers.as_slice()),
        (
            "initContainers",
            spec.init_containers.as_deref().unwrap_or_default(),
        ),
    ];
    for (list, containers) in lists {
        for (position, container) in containers.iter().enumerate() {
            let path = path.field(list).index(position);
            if let Some(context) = &container.security_context {
                collect_privileged_context(context, &path.field("securityContext"), found);
            }
            for (position, port) in container.ports.iter().flatten().enumerate() {
                if port.host_port.is_some_and(|port| port != 0) {
                    found.push(path.field("ports").index(position).field("hostPort"));
                }
            }
        }
    }
}

fn collect_privileged_context(
    context: &SecurityContext,
    path: &FieldPath,
    found: &mut Vec<FieldPath>,
) {
    let added = context
        .capabilities
        .as_ref()
        .and_then(|one| one.add.as_ref());
    let options = context.windows_options.as_ref();
    let fields = [
        ("privileged", context.privileged == Some(true)),
        (
            "allowPrivilegeEscalation",
            context.allow_privilege_escalation == Some(true),
        ),
        ("capabilities", added.is_some_and(|added| !added.is_empty())),
        (
            "procMount",
            context
                .proc_mount
                .as_ref()
                .is_some_and(|one| one != "Default"),
        ),
        (
            "seccompProfile",
            is_unconfined(context.seccomp_profile.as_ref().map(|one| &one.type_)),
        ),
        (
            "appArmorProfile",
            is_unconfined(context.app_armor_profile.as_ref().map(|one| &one.type_)),
        ),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        (
            "windowsOptions",
            options.is_some_and(|options| options.host_process == Some(true)),
        ),
    ];
    let fields = fields.into_iter().filter(|(_, is_set)| *is_set);
    found.extend(fields.map(|(field, _)| path.field(field)));
}

fn is_unconfined(kind: Option<&String>) -> bool {
    kind.is_some_and(|kind| kind == "Unconfined")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check_document;

    fn privileged(template: serde_json::Value) -> Vec<String> {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": {"name": "a"},
            "spec": {"distribution": {"name": "starter"}, "workload": {"podTemplate": template}},
        });
        let checked = check_document(document).result.unwrap();
        let template = checked.workload.pod_template.unwrap();
        template
            .privileged
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_reaches_beyond_the_namespace_is_listed_by_its_path() {
        let found = privileged(json!({"spec": {
            "hostNetwork": true, "hostPID": true, "hostIPC": true, "nodeName": "n", "serviceAccountName": "admin",
            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}],
            "containers": [
                {"name": "llama-stack", "securityContext": {"privileged": true}},
                {"name": "b", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}],
                 "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
            ],
            "initContainers": [{"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": true}}],
        }}));
        let expected = [
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "nodeName",
            "serviceAccountName",
            "securityContext",
            "volumes[1].hostPath",
            "containers[0].securityContext.privileged",
            "containers[1].securityContext.capabilities",
            "containers[1].ports[0].hostPort",
            "initContainers[0].securityContext.allowPrivilegeEscalation",
        ];
        let expected = expected.map(|field| format!("spec.workload.podTemplate.spec.{field}"));
        assert_eq!(found, expected);
        let ordinary = json!({
            "metadata": {"labels": {"team": "ml"}, "annotations": {"a": "b"}},
            "spec": {
                "nodeSelector": {"gpu": "true"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "runtimeClassName": "nvidia", "priorityClassName": "high", "hostUsers": false,
                "securityContext": {"runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "llama-stack", "envFrom": [{"secretRef": {"name": "s"}}]}],
            },
        });
        assert_eq!(privileged(ordinary), Vec::<String>::new());
    }
}

//! The pod: its security context, its server container and its startup probe.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, HTTPGetAction, PodSecurityContext, PodSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;

use super::{
    ConfigPlan, ObjectInputs, SERVICE_ACCOUNT_SUFFIX, environment, external_providers, quantity,
    scheduling, volumes,
};

const CONTAINER: &str = "llama-stack";
/// The group of the published images, which must be able to write to the volume.
const FS_GROUP: i64 = 1001;

pub(super) fn pod(inputs: &ObjectInputs<'_>) -> PodSpec {
    let &ObjectInputs { checked, owner, .. } = inputs;
    let overrides = &checked.workload.overrides;
    let account = overrides
        .service_account_name
        .clone()
        .filter(|name| !name.is_empty());
    let account = account.unwrap_or_else(|| format!("{}{SERVICE_ACCOUNT_SUFFIX}", owner.name));
    PodSpec {
        service_account_name: Some(account),
        termination_grace_period_seconds: overrides.termination_grace_period_seconds,
        image_pull_secrets: overrides.image_pull_secrets.clone(),
        security_context: Some(PodSecurityContext {
            // Where users are restricted, OpenShift chooses the group and rejects any other.
            fs_group: (!inputs.restricts_users()).then_some(FS_GROUP),
            seccomp_profile: is_restricted(inputs).then(|| SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        topology_spread_constraints: scheduling::topology_spread(checked, owner),
        affinity: scheduling::affinity(checked, owner),
        volumes: Some(volumes::volumes(inputs)),
        init_containers: external_providers::init_containers(inputs),
        containers: vec![container(inputs)],
        ..PodSpec::default()
    }
}

/// The security context that the restricted Pod Security Standard requires, except that running as
/// root is allowed, because some images need it.
pub(super) fn restricted_context() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

/// Whether the pod gets restricted security contexts. Only a pod with a generated configuration does,
/// because only its contents are known.
fn is_restricted(inputs: &ObjectInputs<'_>) -> bool {
    matches!(inputs.plan, ConfigPlan::Generated(_))
}

/// Whether the image runs as a numeric user other than root. The kubelet can verify `runAsNonRoot`
/// only for a numeric user, and would not start an image with a user name.
fn is_unprivileged(inputs: &ObjectInputs<'_>) -> bool {
    let user = inputs.image_user.and_then(|user| user.split(':').next());
    user.and_then(|user| user.parse::<u32>().ok())
        .is_some_and(|id| id != 0)
}

fn container(inputs: &ObjectInputs<'_>) -> Container {
    let checked = inputs.checked;
    let overrides = &checked.workload.overrides;
    let startup = match inputs.plan {
        ConfigPlan::Generated(generated) => Some(&generated.startup),
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => None,
    };
    let first_non_empty = |user: &Option<Vec<String>>, plugin: Option<&Vec<String>>| {
        user.clone()
            .filter(|arguments| !arguments.is_empty())
            .or_else(|| plugin.cloned().filter(|arguments| !arguments.is_empty()))
    };
    let name = overrides
        .container_name
        .clone()
        .filter(|name| !name.is_empty());
    Container {
        name: name.unwrap_or_else(|| CONTAINER.to_owned()),
        image: Some(inputs.image.to_owned()),
        command: first_non_empty(&overrides.command, startup.map(|startup| &startup.command)),
        args: first_non_empty(&overrides.args, startup.map(|startup| &startup.args)),
        ports: Some(vec![ContainerPort {
            container_port: i32::from(checked.networking.port()),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        env: Some(environment::environment(inputs)),
        resources: Some(resources(checked)),
        startup_probe: Some(startup_probe(inputs)),
        security_context: is_restricted(inputs).then(|| SecurityContext {
            run_as_non_root: is_unprivileged(inputs).then_some(true),
            ..restricted_context()
        }),
        volume_mounts: Some(volumes::mounts(inputs)),
        ..Container::default()
    }
}

/// Allows half an hour, because the server may download models when it starts.
fn startup_probe(inputs: &ObjectInputs<'_>) -> Probe {
    let networking = &inputs.checked.networking;
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/v1/health".to_owned()),
            port: IntOrString::Int(i32::from(networking.port())),
            scheme: networking.tls_secret.is_some().then(|| "HTTPS".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(5),
        timeout_seconds: Some(5),
        failure_threshold: Some(360),
        success_threshold: Some(1),
        ..Probe::default()
    }
}

/// The resource's own requests and limits. The default requests are one core for each worker and 1
/// GiB, or the limit if that is lower. Default limits are set only if `workers` is set.
fn resources(checked: &Checked) -> ResourceRequirements {
    let mut resources = checked.workload.resources.clone().unwrap_or_default();
    let workers = checked.workload.workers;
    let requests = resources.requests.get_or_insert_default();
    for (name, default) in [
        ("cpu", workers.unwrap_or(1).to_string()),
        ("memory", "1Gi".to_owned()),
    ] {
        let amount = requests.entry(name.to_owned()).or_default();
        if amount.0.is_empty() || amount.0 == "0" {
            let default = Quantity(default);
            let limit = resources.limits.as_ref().and_then(|all| all.get(name));
            let lower = limit.filter(|limit| quantity::is_less(limit, &default));
            *amount = lower.cloned().unwrap_or(default);
        }
        if workers.is_some() {
            let limits = resources.limits.get_or_insert_default();
            limits
                .entry(name.to_owned())
                .or_insert_with(|| amount.clone());
        }
    }
    resources
}

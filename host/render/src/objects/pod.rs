//! The pod: its server container, its probes and how it ends.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPGetAction, Lifecycle, LifecycleHandler, PodSpec, Probe,
    ResourceRequirements, SleepAction,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::Checked;
use llsd_api::v1alpha2::LivenessProbe;

use super::{
    ConfigPlan, ObjectInputs, SERVICE_ACCOUNT_SUFFIX, environment, external_providers, pod_monitor,
    quantity, scheduling, security, volumes,
};
use crate::server_facts::EntryPoint;

/// Copies the end of the log into the status of a container that failed. Servers do not write
/// termination messages of their own.
pub(super) const TERMINATION_MESSAGE_POLICY: &str = "FallbackToLogsOnError";
/// Seconds that a server may take to start, because it may download models: half an hour.
const STARTUP_SECONDS: i32 = 1800;
/// Seconds to schedule a pod, to pull its images and to run its init containers.
const PREPARATION_SECONDS: i32 = 300;
const PROBE_PERIOD_SECONDS: i32 = 5;
/// Seconds that an ending server still accepts connections. Proxies and load balancers learn in this
/// time that the pod is no longer an endpoint.
const DRAIN_SECONDS: i64 = 5;
/// The default of Kubernetes.
const DEFAULT_GRACE_SECONDS: i64 = 30;

pub(super) fn pod(inputs: &ObjectInputs<'_>) -> PodSpec {
    let &ObjectInputs { checked, owner, .. } = inputs;
    let overrides = &checked.workload.overrides;
    let account = overrides
        .service_account_name
        .clone()
        .filter(|name| !name.is_empty());
    let own_account = || format!("{}{SERVICE_ACCOUNT_SUFFIX}", owner.name);
    PodSpec {
        // The server does not call the Kubernetes API. Who names a ServiceAccount wants its token.
        automount_service_account_token: account.is_none().then_some(false),
        service_account_name: Some(account.unwrap_or_else(own_account)),
        // With the variables of Services, a Service "llama-stack" sets LLAMA_STACK_PORT to a URL, and
        // the server does not start.
        enable_service_links: Some(false),
        termination_grace_period_seconds: overrides.termination_grace_period_seconds,
        image_pull_secrets: overrides.image_pull_secrets.clone(),
        security_context: Some(security::pod_context(inputs)),
        topology_spread_constraints: scheduling::topology_spread(checked, owner),
        affinity: scheduling::affinity(checked, owner),
        volumes: Some(volumes::volumes(inputs)),
        init_containers: external_providers::init_containers(inputs),
        containers: vec![container(inputs)],
        ..PodSpec::default()
    }
}

fn container(inputs: &ObjectInputs<'_>) -> Container {
    let checked = inputs.checked;
    let overrides = &checked.workload.overrides;
    let (command, args) = start(inputs);
    let first_non_empty = |user: &Option<Vec<String>>, own: Vec<String>| {
        let user = user.clone().filter(|arguments| !arguments.is_empty());
        user.or_else(|| (!own.is_empty()).then_some(own))
    };
    Container {
        name: checked.workload.container_name().to_owned(),
        image: Some(inputs.image.to_owned()),
        command: first_non_empty(&overrides.command, command),
        args: first_non_empty(&overrides.args, args),
        ports: Some(ports(checked)),
        env: Some(environment::environment(inputs)),
        resources: Some(resources(checked)),
        startup_probe: Some(startup_probe(inputs)),
        lifecycle: lifecycle(checked),
        termination_message_policy: Some(TERMINATION_MESSAGE_POLICY.to_owned()),
        security_context: Some(security::server_context(inputs)),
        readiness_probe: Some(readiness_probe(inputs)),
        liveness_probe: liveness_probe(inputs),
        volume_mounts: Some(volumes::mounts(inputs)),
        ..Container::default()
    }
}

/// The port of the server, and that of its metrics.
fn ports(checked: &Checked) -> Vec<ContainerPort> {
    let port = |name: Option<&str>, port: u16| ContainerPort {
        name: name.map(str::to_owned),
        container_port: i32::from(port),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let server = port(None, checked.networking.port());
    let metrics = checked.telemetry.metrics_port;
    let metrics = metrics.map(|metrics| port(Some(pod_monitor::PORT_NAME), metrics));
    std::iter::once(server).chain(metrics).collect()
}

/// The operator's command and arguments. Empty: those of the image.
fn start(inputs: &ObjectInputs<'_>) -> (Vec<String>, Vec<String>) {
    match inputs.plan {
        ConfigPlan::Generated(generated) => {
            let startup = &generated.startup;
            (startup.command.clone(), startup.args.clone())
        }
        // The entry point of such an image would start the server with the file in the image.
        ConfigPlan::Override { .. } if inputs.server.entry_point == EntryPoint::Fixed => {
            let port = inputs.checked.networking.port().to_string();
            let command = ["llama", "stack", "run", volumes::CONFIG_FILE, "--port"];
            let command = command.into_iter().map(str::to_owned).chain([port]);
            (command.collect(), Vec::new())
        }
        ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => Default::default(),
    }
}

/// Delays the end of a server until no new connections are routed to it. The delay is part of the
/// grace period, and leaves at least half of it to the server.
fn lifecycle(checked: &Checked) -> Option<Lifecycle> {
    let overrides = &checked.workload.overrides;
    let grace = overrides
        .termination_grace_period_seconds
        .unwrap_or(DEFAULT_GRACE_SECONDS);
    let seconds = DRAIN_SECONDS.min(grace / 2);
    (seconds > 0).then(|| Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    })
}

/// Seconds in which a new pod must become available. The default of Kubernetes, ten minutes, would
/// report a server as failed that is still downloading a model.
pub(super) fn progress_deadline(checked: &Checked) -> i32 {
    let requested = checked.workload.progress_deadline_seconds;
    requested.unwrap_or(STARTUP_SECONDS + PREPARATION_SECONDS)
}

fn startup_probe(inputs: &ObjectInputs<'_>) -> Probe {
    let startup = progress_deadline(inputs.checked) - PREPARATION_SECONDS;
    let startup = startup.max(STARTUP_SECONDS);
    Probe {
        period_seconds: Some(PROBE_PERIOD_SECONDS),
        timeout_seconds: Some(5),
        failure_threshold: Some(startup / PROBE_PERIOD_SECONDS),
        success_threshold: Some(1),
        ..health_request(inputs)
    }
}

/// Takes a pod out of the Service after half a minute without an answer, and back after one answer.
fn readiness_probe(inputs: &ObjectInputs<'_>) -> Probe {
    Probe {
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        success_threshold: Some(1),
        ..health_request(inputs)
    }
}

/// Restarts the server after two minutes without an answer, by default. Only on request: a server that
/// is busy with a long request may not answer either, and a restart would lose that request.
fn liveness_probe(inputs: &ObjectInputs<'_>) -> Option<Probe> {
    let LivenessProbe {
        period_seconds,
        timeout_seconds,
        failure_threshold,
    } = inputs.checked.workload.liveness_probe?;
    Some(Probe {
        period_seconds: Some(period_seconds.unwrap_or(20)),
        timeout_seconds: Some(timeout_seconds.unwrap_or(10)),
        failure_threshold: Some(failure_threshold.unwrap_or(6)),
        success_threshold: Some(1),
        ..health_request(inputs)
    })
}

fn health_request(inputs: &ObjectInputs<'_>) -> Probe {
    let networking = &inputs.checked.networking;
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/v1/health".to_owned()),
            port: IntOrString::Int(i32::from(networking.port())),
            scheme: networking.tls_secret.is_some().then(|| "HTTPS".to_owned()),
            ..HTTPGetAction::default()
        }),
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

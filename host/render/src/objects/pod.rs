//! One pod: the server container, its volumes, its probe, and where pods go.

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource,
    HTTPGetAction, PersistentVolumeClaimVolumeSource, PodAffinityTerm, PodAntiAffinity,
    PodSecurityContext, PodSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
    TopologySpreadConstraint, Volume, VolumeMount, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llsd_api::checked::{Checked, DEFAULT_MOUNT_PATH};
use llsd_api::{FieldPath, Rejection, Rejections, labels};

use super::{
    ConfigPlan, ObjectInputs, Owner, SERVICE_ACCOUNT_SUFFIX, config_map_name, environment,
    external, quantity, text_map, tls, trust, volume,
};

/// Where the server finds its file.
pub(crate) const CONFIG_FILE: &str = "/etc/llama-stack/config.yaml";
const CONFIG_FOLDER: &str = "/etc/llama-stack/";
const CONTAINER: &str = "llama-stack";
const CONFIG_VOLUME: &str = "user-config";
const DATA_VOLUME: &str = "lls-storage";
/// The group of the published images, which must be able to write to the volume.
const FS_GROUP: i64 = 1001;
const HOST_TOPOLOGY: &str = "kubernetes.io/hostname";
const TOPOLOGIES: [&str; 3] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    HOST_TOPOLOGY,
];

/// Where the server keeps its data, on a volume or not.
pub(crate) fn data_folder(checked: &Checked) -> &str {
    checked
        .workload
        .volume
        .as_ref()
        .map_or(DEFAULT_MOUNT_PATH, |volume| &volume.mount_path)
}

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
            fs_group: Some(FS_GROUP),
            seccomp_profile: is_confined(inputs).then(|| SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        topology_spread_constraints: spread(checked, owner),
        affinity: (checked.workload.replicas() > 1).then(|| apart(owner)),
        volumes: Some(with_users(volumes(inputs), &overrides.volumes)),
        init_containers: external::init_containers(inputs),
        containers: vec![container(inputs)],
        ..PodSpec::default()
    }
}

/// What a container may not do: everything that the restricted level forbids, except for running as
/// root, which some images need.
pub(super) fn confined() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

/// Pods with a file of ours are: what is in them is known. The others run as their images want.
fn is_confined(inputs: &ObjectInputs<'_>) -> bool {
    matches!(inputs.plan, ConfigPlan::Generated(_))
}

/// Whether the image runs as somebody else than root. The node can tell by a number only: it would
/// not start an image that gives a name.
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
    let choose = |user: &Option<Vec<String>>, hint: Option<&Vec<String>>| {
        user.clone()
            .filter(|words| !words.is_empty())
            .or_else(|| hint.cloned().filter(|words| !words.is_empty()))
    };
    let name = overrides
        .container_name
        .clone()
        .filter(|name| !name.is_empty());
    Container {
        name: name.unwrap_or_else(|| CONTAINER.to_owned()),
        image: Some(inputs.image.to_owned()),
        command: choose(&overrides.command, startup.map(|startup| &startup.command)),
        args: choose(&overrides.args, startup.map(|startup| &startup.args)),
        ports: Some(vec![ContainerPort {
            container_port: i32::from(checked.networking.port()),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        env: Some(environment::environment(inputs)),
        resources: Some(resources(checked)),
        startup_probe: Some(startup_probe(inputs)),
        security_context: is_confined(inputs).then(|| SecurityContext {
            run_as_non_root: is_unprivileged(inputs).then_some(true),
            ..confined()
        }),
        volume_mounts: Some(with_users(mounts(inputs), &overrides.volume_mounts)),
        ..Container::default()
    }
}

/// A server that loads models takes its time: it has half an hour.
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

/// One core for each worker and one gibibyte, unless asked otherwise or limited to less; limits only
/// where the number of workers is.
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

/// Refuses volumes and mounts of the user that would take the place of ours: the API server would
/// not take the pods.
pub(super) fn refuse_collisions(inputs: &ObjectInputs<'_>) -> Result<(), Rejections> {
    let overrides = &inputs.checked.workload.overrides;
    let path = FieldPath::spec().at(&["workload", "overrides"]);
    let (our_volumes, our_mounts) = (volumes(inputs), mounts(inputs));
    let mut found = Vec::new();
    for (position, volume) in overrides.volumes.iter().flatten().enumerate() {
        if our_volumes.iter().any(|ours| ours.name == volume.name) {
            found.push(Rejection {
                field: path.field("volumes").index(position).field("name"),
                problem: format!("{:?} is the name of a volume of the operator", volume.name),
                fix: "use another name".to_owned(),
            });
        }
    }
    for (position, mount) in overrides.volume_mounts.iter().flatten().enumerate() {
        // To the letter, as the API server compares: what it takes may be running already.
        if our_mounts
            .iter()
            .any(|ours| ours.mount_path == mount.mount_path)
        {
            found.push(Rejection {
                field: path
                    .field("volumeMounts")
                    .index(position)
                    .field("mountPath"),
                problem: format!("the operator mounts a volume at {:?}", mount.mount_path),
                fix: "use another path".to_owned(),
            });
        }
    }
    Rejections::new(found).map_or(Ok(()), Err)
}

/// The volumes that are ours.
fn volumes(inputs: &ObjectInputs<'_>) -> Vec<Volume> {
    let &ObjectInputs { checked, owner, .. } = inputs;
    let mut data = Volume {
        name: DATA_VOLUME.to_owned(),
        ..Volume::default()
    };
    if checked.workload.volume.is_some() {
        let claim_name = format!("{}{}", owner.name, volume::SUFFIX);
        data.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
            claim_name,
            read_only: None,
        });
    } else {
        data.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    let config_map = match inputs.plan {
        ConfigPlan::Generated(generated) => Some(config_map_name(&owner.name, &generated.yaml)),
        ConfigPlan::Override { config_map, .. } => Some(config_map.clone()),
        ConfigPlan::DistributionDefault => None,
    };
    let config = config_map.map(|name| Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name,
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    });
    let ours = [
        Some(data),
        inputs.trust.map(|_| trust::volume(owner)),
        config,
        tls::volume(checked),
        external::volume(inputs),
    ];
    ours.into_iter().flatten().collect()
}

/// The mounts that are ours.
fn mounts(inputs: &ObjectInputs<'_>) -> Vec<VolumeMount> {
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
    let ours = [
        Some(data),
        config,
        inputs.trust.map(|_| trust::mount()),
        tls::mount(checked),
        external::mount(inputs),
    ];
    ours.into_iter().flatten().collect()
}

fn with_users<T: Clone>(ours: Vec<T>, users: &Option<Vec<T>>) -> Vec<T> {
    ours.into_iter()
        .chain(users.iter().flatten().cloned())
        .collect()
}

/// The user's wishes, or several pods evenly over regions, zones and nodes.
fn spread(checked: &Checked, owner: &Owner) -> Option<Vec<TopologySpreadConstraint>> {
    let asked = &checked.workload.topology_spread_constraints;
    if !asked.is_empty() {
        return Some(asked.clone());
    }
    let evenly = |topology: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: topology.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(pods_of(owner)),
        ..TopologySpreadConstraint::default()
    };
    (checked.workload.replicas() > 1).then(|| TOPOLOGIES.into_iter().map(evenly).collect())
}

/// Pods avoid nodes that have one already.
fn apart(owner: &Owner) -> Affinity {
    let term = WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            topology_key: HOST_TOPOLOGY.to_owned(),
            label_selector: Some(pods_of(owner)),
            ..PodAffinityTerm::default()
        },
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn pods_of(owner: &Owner) -> LabelSelector {
    LabelSelector {
        match_labels: Some(text_map([(labels::INSTANCE, owner.name.as_str())])),
        ..LabelSelector::default()
    }
}

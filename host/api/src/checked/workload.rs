//! Checks `spec.workload` and sets its defaults.

mod overrides;
mod pod_template;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::secrets::Reference;
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::rules;
pub use pod_template::CheckedPodTemplate;

use crate::v1alpha2::{
    AccessMode, Autoscaling, DisruptionBudget, LivenessProbe, Overrides, RetainPolicy, Volume,
    Workload,
};

/// Default size of a volume.
pub(super) const DEFAULT_VOLUME_SIZE: &str = "10Gi";
/// Default mount path of a volume.
pub const DEFAULT_MOUNT_PATH: &str = "/.llama";

/// The pods of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckedWorkload {
    /// The number in the resource. [`CheckedWorkload::replicas`] includes the default.
    pub requested_replicas: Option<i32>,
    /// Server processes in each pod.
    pub workers: Option<u16>,
    /// CPU and memory of the server container.
    pub resources: Option<core::ResourceRequirements>,
    /// Horizontal autoscaling.
    pub autoscaling: Option<CheckedAutoscaling>,
    /// The persistent volume.
    pub volume: Option<CheckedVolume>,
    /// Restarts pods whose server stops answering.
    pub liveness_probe: Option<LivenessProbe>,
    /// Seconds in which new pods must become available.
    pub progress_deadline_seconds: Option<i32>,
    /// The PodDisruptionBudget.
    pub disruption_budget: Option<CheckedBudget>,
    /// How pods are spread over nodes and zones.
    pub topology_spread_constraints: Vec<core::TopologySpreadConstraint>,
    /// Overrides of the pod template.
    pub overrides: Overrides,
    /// What is merged over the pod template.
    pub pod_template: Option<CheckedPodTemplate>,
}

impl CheckedWorkload {
    /// Number of pods without an autoscaler.
    pub fn replicas(&self) -> i32 {
        self.requested_replicas.unwrap_or(1)
    }

    /// Name of the server container.
    pub fn container_name(&self) -> &str {
        let name = self.overrides.container_name.as_deref();
        name.filter(|name| !name.is_empty())
            .unwrap_or(pod_template::DEFAULT_CONTAINER)
    }

    /// The Secret keys that environment variables of the overrides need. A key that is optional is
    /// not needed.
    pub fn override_references(&self) -> Vec<Reference> {
        overrides::secret_references(&self.overrides)
    }
}

/// Horizontal autoscaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedAutoscaling {
    /// Minimum number of pods.
    pub min_replicas: Option<i32>,
    /// Maximum number of pods.
    pub max_replicas: i32,
    /// Target CPU utilization in percent.
    pub cpu_percent: Option<i32>,
    /// Target memory utilization in percent.
    pub memory_percent: Option<i32>,
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedVolume {
    /// Size of the volume.
    pub size: Quantity,
    /// Mount path in the server container.
    pub mount_path: String,
    /// StorageClass. `None`: the default of the cluster.
    pub storage_class_name: Option<String>,
    /// How nodes may mount it; never empty.
    pub access_modes: Vec<AccessMode>,
    /// A claim of the user. `None`: the operator creates one.
    pub existing_claim: Option<String>,
    /// Whether the claim stays when the resource is deleted.
    pub is_retained: bool,
}

impl CheckedVolume {
    /// Whether pods of several nodes can use it at the same time.
    pub fn is_shared(&self) -> bool {
        self.access_modes.contains(&AccessMode::ReadWriteMany)
    }
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedBudget {
    /// Minimum number of pods that stay available.
    MinAvailable(IntOrString),
    /// Maximum number of pods that may be unavailable.
    MaxUnavailable(IntOrString),
}

/// Checks the workload. The schema has checked the ranges.
pub(super) fn check(workload: &Workload, diagnostics: &mut Collector) -> CheckedWorkload {
    let Workload {
        replicas,
        workers,
        resources,
        autoscaling,
        storage,
        liveness_probe,
        progress_deadline_seconds,
        pod_disruption_budget,
        topology_spread_constraints,
        overrides,
        pod_template,
    } = workload;
    let path = FieldPath::spec().field("workload");
    if let Some(resources) = resources {
        check_resources(resources, &path.field("resources"), diagnostics);
    }
    if let Some(overrides) = overrides {
        overrides::check_overrides(overrides, &path.field("overrides"), diagnostics);
    }
    let access_modes = storage.as_ref().and_then(|one| one.access_modes.as_deref());
    let is_shared = access_modes.is_some_and(|all| all.contains(&AccessMode::ReadWriteMany));
    if storage.is_some() && !is_shared {
        warn_about_shared_volume(workload, &path.field("storage"), diagnostics);
    }
    CheckedWorkload {
        requested_replicas: *replicas,
        workers: workers.and_then(|workers| u16::try_from(workers).ok()),
        resources: resources.clone(),
        autoscaling: autoscaling
            .as_ref()
            .map(|scaling| check_autoscaling(scaling, &path.field("autoscaling"), diagnostics)),
        volume: storage
            .as_ref()
            .map(|volume| check_volume(volume, &path.field("storage"), diagnostics)),
        liveness_probe: *liveness_probe,
        progress_deadline_seconds: *progress_deadline_seconds,
        disruption_budget: pod_disruption_budget.as_ref().and_then(|budget| {
            check_budget(budget, &path.field("podDisruptionBudget"), diagnostics)
        }),
        topology_spread_constraints: topology_spread_constraints.clone().unwrap_or_default(),
        overrides: overrides.clone().unwrap_or_default(),
        pod_template: pod_template.as_ref().and_then(|template| {
            let name = overrides
                .as_ref()
                .and_then(|overrides| overrides.container_name.as_deref())
                .filter(|name| !name.is_empty());
            let server = name.unwrap_or(pod_template::DEFAULT_CONTAINER);
            pod_template::check(template, server, diagnostics)
        }),
    }
}

/// Warns if several pods would share the volume, which only one node can attach at a time.
fn warn_about_shared_volume(workload: &Workload, path: &FieldPath, diagnostics: &mut Collector) {
    let scaled = workload.autoscaling.as_ref().map(|one| one.max_replicas);
    let pods = scaled.or(workload.replicas).unwrap_or(1);
    if pods > 1 {
        diagnostics.warning(
            path,
            format!(
                "up to {pods} pods share one ReadWriteOnce volume, which only one node can attach at a time, so that pods on other nodes do not start"
            ),
            "keep the data in a database (spec.storage) and remove the volume, use accessModes: [ReadWriteMany], or use one pod",
        );
    }
}

fn check_resources(
    resources: &core::ResourceRequirements,
    path: &FieldPath,
    diagnostics: &mut Collector,
) {
    let amounts = [
        ("limits", &resources.limits),
        ("requests", &resources.requests),
    ];
    for (field, amounts) in amounts {
        for (name, quantity) in amounts.iter().flatten() {
            check_quantity(quantity, &path.at(&[field, name]), diagnostics);
        }
    }
}

fn check_quantity(quantity: &Quantity, path: &FieldPath, diagnostics: &mut Collector) {
    untyped::check_string(
        &quantity.0,
        path,
        names::quantity(&quantity.0),
        "use a quantity such as 500m, 2 or 10Gi",
        diagnostics,
    );
}

fn check_autoscaling(
    scaling: &Autoscaling,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> CheckedAutoscaling {
    let Autoscaling {
        min_replicas,
        max_replicas,
        target_cpu_utilization_percentage,
        target_cpu_utilization,
        target_memory_utilization_percentage,
    } = *scaling;
    if min_replicas.is_some_and(|min| min > max_replicas) {
        diagnostics.violation(&rules::MAX_OVER_MIN, &path.field("maxReplicas"));
    }
    if let (Some(long), Some(short)) = (target_cpu_utilization_percentage, target_cpu_utilization)
        && long != short
    {
        diagnostics.violation(&rules::ONE_CPU_TARGET, &path.field("targetCPUUtilization"));
    }
    CheckedAutoscaling {
        min_replicas,
        max_replicas,
        cpu_percent: target_cpu_utilization_percentage.or(target_cpu_utilization),
        memory_percent: target_memory_utilization_percentage,
    }
}

fn check_volume(volume: &Volume, path: &FieldPath, diagnostics: &mut Collector) -> CheckedVolume {
    let Volume {
        size,
        mount_path,
        storage_class_name,
        access_modes,
        existing_claim,
        retain_policy,
    } = volume;
    if let Some(size) = size {
        check_quantity(size, &path.field("size"), diagnostics);
        if let Err(error) = names::volume_size(&size.0) {
            diagnostics.error(
                &path.field("size"),
                format!("{:?} {error}", size.0),
                "use a size such as 10Gi",
            );
        }
    }
    if let Some(mount) = mount_path {
        overrides::check_mount_path(mount, &path.field("mountPath"), diagnostics);
    }
    for (field, name, fix) in [
        (
            "storageClassName",
            storage_class_name,
            "use the name of a StorageClass",
        ),
        (
            "existingClaim",
            existing_claim,
            "use the name of a PersistentVolumeClaim",
        ),
    ] {
        // An empty class means a volume without a class.
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            untyped::check_string(
                name,
                &path.field(field),
                names::subdomain(name),
                fix,
                diagnostics,
            );
        }
    }
    if existing_claim.is_some()
        && (size.is_some() || storage_class_name.is_some() || retain_policy.is_some())
    {
        diagnostics.violation(&rules::EXISTING_CLAIM, &path.field("existingClaim"));
    }
    CheckedVolume {
        size: size
            .clone()
            .unwrap_or_else(|| Quantity(DEFAULT_VOLUME_SIZE.to_owned())),
        mount_path: mount_path
            .clone()
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| DEFAULT_MOUNT_PATH.to_owned()),
        storage_class_name: storage_class_name.clone(),
        access_modes: access_modes
            .clone()
            .filter(|modes| !modes.is_empty())
            .unwrap_or_else(|| vec![AccessMode::ReadWriteOnce]),
        existing_claim: existing_claim.clone(),
        is_retained: *retain_policy == Some(RetainPolicy::Retain),
    }
}

fn check_budget(
    budget: &DisruptionBudget,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> Option<CheckedBudget> {
    for (field, value) in [
        ("minAvailable", &budget.min_available),
        ("maxUnavailable", &budget.max_unavailable),
    ] {
        let is_valid = match value {
            None => true,
            Some(IntOrString::Int(number)) => *number >= 0,
            Some(IntOrString::String(text)) => text
                .strip_suffix('%')
                .is_some_and(|number| number.parse::<u8>().is_ok_and(|percent| percent <= 100)),
        };
        if !is_valid {
            diagnostics.error(
                &path.field(field),
                "must be a number of pods or a percentage",
                "use an integer such as 1, or a string such as \"50%\"",
            );
        }
    }
    match (&budget.min_available, &budget.max_unavailable) {
        (Some(min), None) => Some(CheckedBudget::MinAvailable(min.clone())),
        (None, Some(max)) => Some(CheckedBudget::MaxUnavailable(max.clone())),
        (Some(_), Some(_)) => {
            diagnostics.violation(&rules::ONE_BUDGET, path);
            None
        }
        (None, None) => {
            diagnostics.violation(&rules::SOME_BUDGET, path);
            None
        }
    }
}

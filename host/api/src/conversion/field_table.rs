//! The table of fields that exist in both versions, as JSON pointers.
//!
//! Only leaf fields are in the table. An object is converted by its fields, unless the presence of the
//! empty object has a meaning. Fields that are not in the table are preserved in an annotation.

/// Which value in v1alpha1 means that the field is absent in v1alpha2. The other direction copies
/// every value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AbsentIf {
    /// No value.
    Never,
    /// Zero, which v1alpha2 rejects.
    Zero,
    /// The empty string, which v1alpha2 rejects.
    EmptyString,
    /// The default name of the container, which the schema of v1alpha1 fills in.
    DefaultContainerName,
}

/// A field in v1alpha1, the same field in v1alpha2, and the v1alpha1 value that means absent.
pub(super) type Entry = (&'static str, &'static str, AbsentIf);

pub(super) const FIELDS: &[Entry] = &[
    (
        "/spec/server/distribution/name",
        "/spec/distribution/name",
        AbsentIf::Never,
    ),
    (
        "/spec/server/distribution/image",
        "/spec/distribution/image",
        AbsentIf::Never,
    ),
    (
        "/spec/server/userConfig/configMapName",
        "/spec/overrideConfig/configMapName",
        AbsentIf::EmptyString,
    ),
    (
        "/spec/server/userConfig/configMapNamespace",
        "/spec/overrideConfig/configMapNamespace",
        AbsentIf::Never,
    ),
    (
        "/spec/server/containerSpec/port",
        "/spec/networking/port",
        AbsentIf::Zero,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapName",
        "/spec/networking/tls/caBundle/configMapName",
        AbsentIf::Never,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapNamespace",
        "/spec/networking/tls/caBundle/configMapNamespace",
        AbsentIf::Never,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapKeys",
        "/spec/networking/tls/caBundle/configMapKeys",
        AbsentIf::Never,
    ),
    (
        "/spec/network/allowedFrom/namespaces",
        "/spec/networking/allowedFrom/namespaces",
        AbsentIf::Never,
    ),
    (
        "/spec/network/allowedFrom/labels",
        "/spec/networking/allowedFrom/labels",
        AbsentIf::Never,
    ),
    ("/spec/replicas", "/spec/workload/replicas", AbsentIf::Never),
    (
        "/spec/server/workers",
        "/spec/workload/workers",
        AbsentIf::Never,
    ),
    (
        "/spec/server/containerSpec/resources",
        "/spec/workload/resources",
        AbsentIf::Never,
    ),
    (
        "/spec/server/autoscaling/minReplicas",
        "/spec/workload/autoscaling/minReplicas",
        AbsentIf::Zero,
    ),
    (
        "/spec/server/autoscaling/maxReplicas",
        "/spec/workload/autoscaling/maxReplicas",
        AbsentIf::Never,
    ),
    (
        "/spec/server/autoscaling/targetCPUUtilizationPercentage",
        "/spec/workload/autoscaling/targetCPUUtilizationPercentage",
        AbsentIf::Never,
    ),
    (
        "/spec/server/autoscaling/targetMemoryUtilizationPercentage",
        "/spec/workload/autoscaling/targetMemoryUtilizationPercentage",
        AbsentIf::Never,
    ),
    (
        "/spec/server/storage/size",
        "/spec/workload/storage/size",
        AbsentIf::Never,
    ),
    (
        "/spec/server/storage/mountPath",
        "/spec/workload/storage/mountPath",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podDisruptionBudget/minAvailable",
        "/spec/workload/podDisruptionBudget/minAvailable",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podDisruptionBudget/maxUnavailable",
        "/spec/workload/podDisruptionBudget/maxUnavailable",
        AbsentIf::Never,
    ),
    (
        "/spec/server/topologySpreadConstraints",
        "/spec/workload/topologySpreadConstraints",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podOverrides/serviceAccountName",
        "/spec/workload/overrides/serviceAccountName",
        AbsentIf::Never,
    ),
    (
        "/spec/server/containerSpec/name",
        "/spec/workload/overrides/containerName",
        AbsentIf::DefaultContainerName,
    ),
    (
        "/spec/server/containerSpec/env",
        "/spec/workload/overrides/env",
        AbsentIf::Never,
    ),
    (
        "/spec/server/containerSpec/command",
        "/spec/workload/overrides/command",
        AbsentIf::Never,
    ),
    (
        "/spec/server/containerSpec/args",
        "/spec/workload/overrides/args",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podOverrides/volumes",
        "/spec/workload/overrides/volumes",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podOverrides/volumeMounts",
        "/spec/workload/overrides/volumeMounts",
        AbsentIf::Never,
    ),
    (
        "/spec/server/podOverrides/terminationGracePeriodSeconds",
        "/spec/workload/overrides/terminationGracePeriodSeconds",
        AbsentIf::Never,
    ),
];

/// Objects whose presence has a meaning even when they are empty: `distribution` is required, and
/// `storage` requests a volume.
pub(super) const PRESENCES: &[(&str, &str)] = &[
    ("/spec/server/distribution", "/spec/distribution"),
    ("/spec/server/storage", "/spec/workload/storage"),
];

pub(super) const EXPOSE_V1ALPHA1: &str = "/spec/network/exposeRoute";
pub(super) const EXPOSE_V1ALPHA2: &str = "/spec/networking/expose";
pub(super) const CPU_TARGET: &str = "/spec/workload/autoscaling/targetCPUUtilizationPercentage";
/// A second name of the same field, which v1alpha1 does not have.
pub(super) const CPU_TARGET_ALIAS: &str = "/spec/workload/autoscaling/targetCPUUtilization";

/// A field and the sibling that it depends on. A preserved field is restored only if the sibling has
/// not changed.
pub(super) const COUPLED: &[(&str, &str)] = &[
    (CPU_TARGET_ALIAS, CPU_TARGET),
    (
        "/spec/server/autoscaling/minReplicas",
        "/spec/server/autoscaling/maxReplicas",
    ),
];

/// The fields of a v1alpha1 status. v1alpha2 has all of them and more.
pub(super) const STATUS: &[&str] = &[
    "phase",
    "version",
    "distributionConfig",
    "conditions",
    "availableReplicas",
    "replicas",
    "selector",
    "observedGeneration",
    "serviceURL",
    "routeURL",
];

/// Whether the object at `pointer` contains fields of the table. `side` selects the version.
pub(super) fn is_group(pointer: &str, side: fn(&Entry) -> &'static str) -> bool {
    let is_below = |field: &str| {
        field
            .strip_prefix(pointer)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    pointer == "/status"
        || FIELDS.iter().any(|entry| is_below(side(entry)))
        || is_below(EXPOSE_V1ALPHA1)
        || is_below(EXPOSE_V1ALPHA2)
}

/// The v1alpha1 path of a v1alpha2 field: `spec.server.containerSpec.port` for
/// `spec.networking.port`. `None` if v1alpha1 does not have the field.
pub fn v1alpha1_path(path: &str) -> Option<String> {
    let dotted = |pointer: &str| pointer[1..].replace('/', ".");
    let fields = FIELDS.iter().map(|(old, new, _)| (*old, *new));
    let all = fields
        .chain(PRESENCES.iter().copied())
        .chain([(EXPOSE_V1ALPHA1, EXPOSE_V1ALPHA2)]);
    let matches = all.filter_map(|(old, new)| {
        let new = dotted(new);
        let rest = path.strip_prefix(&new)?;
        let is_below = rest.is_empty() || rest.starts_with(['.', '[']);
        is_below.then(|| (new.len(), dotted(old) + rest))
    });
    // The longest match: a field rather than the object that contains it.
    matches.max().map(|(_, path)| path)
}

//! Where each field of one version stands in the other.
//!
//! Only fields move; an object without fields does not, unless its presence alone means something.
//! What does not move is carried.

use serde_json::{Map, Value};

use super::Direction;
use super::carried::{CARRIED_V1ALPHA1, CARRIED_V1ALPHA2, place, put};

/// From v1alpha1 to v1alpha2.
pub(super) const UP: Direction = Direction {
    translate: up,
    back: down,
    brought: CARRIED_V1ALPHA2,
    taken: CARRIED_V1ALPHA1,
    source_groups: |place| is_group(place, |entry| entry.0),
    reports_conflicts: true,
};

/// From v1alpha2 to v1alpha1.
pub(super) const DOWN: Direction = Direction {
    translate: down,
    back: up,
    brought: CARRIED_V1ALPHA1,
    taken: CARRIED_V1ALPHA2,
    source_groups: |place| is_group(place, |entry| entry.1),
    reports_conflicts: false,
};

/// How a value changes on the way to v1alpha2. On the way back it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upward {
    /// Not at all.
    AsIs,
    /// v1alpha1 takes zero for absent; v1alpha2 refuses it.
    UnlessZero,
    /// v1alpha1 takes an empty name for absent; v1alpha2 refuses it.
    UnlessEmpty,
    /// v1alpha1 fills in this name; v1alpha2 means it by absence.
    UnlessDefaultName,
}

type Entry = (&'static str, &'static str, Upward);

/// v1alpha1, v1alpha2.
const FIELDS: &[Entry] = &[
    (
        "/spec/server/distribution/name",
        "/spec/distribution/name",
        Upward::AsIs,
    ),
    (
        "/spec/server/distribution/image",
        "/spec/distribution/image",
        Upward::AsIs,
    ),
    (
        "/spec/server/userConfig/configMapName",
        "/spec/overrideConfig/configMapName",
        Upward::UnlessEmpty,
    ),
    (
        "/spec/server/userConfig/configMapNamespace",
        "/spec/overrideConfig/configMapNamespace",
        Upward::AsIs,
    ),
    (
        "/spec/server/containerSpec/port",
        "/spec/networking/port",
        Upward::UnlessZero,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapName",
        "/spec/networking/tls/caBundle/configMapName",
        Upward::AsIs,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapNamespace",
        "/spec/networking/tls/caBundle/configMapNamespace",
        Upward::AsIs,
    ),
    (
        "/spec/server/tlsConfig/caBundle/configMapKeys",
        "/spec/networking/tls/caBundle/configMapKeys",
        Upward::AsIs,
    ),
    (
        "/spec/network/allowedFrom/namespaces",
        "/spec/networking/allowedFrom/namespaces",
        Upward::AsIs,
    ),
    (
        "/spec/network/allowedFrom/labels",
        "/spec/networking/allowedFrom/labels",
        Upward::AsIs,
    ),
    ("/spec/replicas", "/spec/workload/replicas", Upward::AsIs),
    (
        "/spec/server/workers",
        "/spec/workload/workers",
        Upward::AsIs,
    ),
    (
        "/spec/server/containerSpec/resources",
        "/spec/workload/resources",
        Upward::AsIs,
    ),
    (
        "/spec/server/autoscaling/minReplicas",
        "/spec/workload/autoscaling/minReplicas",
        Upward::UnlessZero,
    ),
    (
        "/spec/server/autoscaling/maxReplicas",
        "/spec/workload/autoscaling/maxReplicas",
        Upward::AsIs,
    ),
    (
        "/spec/server/autoscaling/targetCPUUtilizationPercentage",
        "/spec/workload/autoscaling/targetCPUUtilizationPercentage",
        Upward::AsIs,
    ),
    (
        "/spec/server/autoscaling/targetMemoryUtilizationPercentage",
        "/spec/workload/autoscaling/targetMemoryUtilizationPercentage",
        Upward::AsIs,
    ),
    (
        "/spec/server/storage/size",
        "/spec/workload/storage/size",
        Upward::AsIs,
    ),
    (
        "/spec/server/storage/mountPath",
        "/spec/workload/storage/mountPath",
        Upward::AsIs,
    ),
    (
        "/spec/server/podDisruptionBudget/minAvailable",
        "/spec/workload/podDisruptionBudget/minAvailable",
        Upward::AsIs,
    ),
    (
        "/spec/server/podDisruptionBudget/maxUnavailable",
        "/spec/workload/podDisruptionBudget/maxUnavailable",
        Upward::AsIs,
    ),
    (
        "/spec/server/topologySpreadConstraints",
        "/spec/workload/topologySpreadConstraints",
        Upward::AsIs,
    ),
    (
        "/spec/server/podOverrides/serviceAccountName",
        "/spec/workload/overrides/serviceAccountName",
        Upward::AsIs,
    ),
    (
        "/spec/server/containerSpec/name",
        "/spec/workload/overrides/containerName",
        Upward::UnlessDefaultName,
    ),
    (
        "/spec/server/containerSpec/env",
        "/spec/workload/overrides/env",
        Upward::AsIs,
    ),
    (
        "/spec/server/containerSpec/command",
        "/spec/workload/overrides/command",
        Upward::AsIs,
    ),
    (
        "/spec/server/containerSpec/args",
        "/spec/workload/overrides/args",
        Upward::AsIs,
    ),
    (
        "/spec/server/podOverrides/volumes",
        "/spec/workload/overrides/volumes",
        Upward::AsIs,
    ),
    (
        "/spec/server/podOverrides/volumeMounts",
        "/spec/workload/overrides/volumeMounts",
        Upward::AsIs,
    ),
    (
        "/spec/server/podOverrides/terminationGracePeriodSeconds",
        "/spec/workload/overrides/terminationGracePeriodSeconds",
        Upward::AsIs,
    ),
];

/// Objects whose presence means something: required, or a wish for a volume.
const PRESENCES: &[(&str, &str)] = &[
    ("/spec/server/distribution", "/spec/distribution"),
    ("/spec/server/storage", "/spec/workload/storage"),
];

const EXPOSE_V1ALPHA1: &str = "/spec/network/exposeRoute";
const EXPOSE_V1ALPHA2: &str = "/spec/networking/expose";
const CPU_TARGET: &str = "/spec/workload/autoscaling/targetCPUUtilizationPercentage";
/// Another name of the same, which v1alpha1 does not know.
const CPU_TARGET_ALIAS: &str = "/spec/workload/autoscaling/targetCPUUtilization";

/// A field and the sibling without which it means nothing: it comes back only beside the same.
pub(super) const COUPLED: &[(&str, &str)] = &[
    (CPU_TARGET_ALIAS, CPU_TARGET),
    (
        "/spec/server/autoscaling/minReplicas",
        "/spec/server/autoscaling/maxReplicas",
    ),
];

/// What a v1alpha1 status holds; v1alpha2 has the same and more.
const STATUS: &[&str] = &[
    "phase",
    "version",
    "distributionConfig",
    "conditions",
    "availableReplicas",
    "serviceURL",
    "routeURL",
];

/// Whether some field of the table, in the version that `side` picks, stands below `place`.
fn is_group(place: &str, side: fn(&Entry) -> &'static str) -> bool {
    let below = |field: &str| {
        field
            .strip_prefix(place)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    place == "/status"
        || FIELDS.iter().any(|entry| below(side(entry)))
        || below(EXPOSE_V1ALPHA1)
        || below(EXPOSE_V1ALPHA2)
}

/// Where a field of v1alpha2 stands in v1alpha1: `spec.networking.port` in
/// `spec.server.containerSpec.port`. What v1alpha1 cannot say has no place there.
pub fn v1alpha1_path(path: &str) -> Option<String> {
    let dotted = |pointer: &str| pointer[1..].replace('/', ".");
    let fields = FIELDS.iter().map(|(old, new, _)| (*old, *new));
    let all = fields
        .chain(PRESENCES.iter().copied())
        .chain([(EXPOSE_V1ALPHA1, EXPOSE_V1ALPHA2)]);
    let places = all.filter_map(|(old, new)| {
        let new = dotted(new);
        let rest = path.strip_prefix(&new)?;
        let is_below = rest.is_empty() || rest.starts_with(['.', '[']);
        is_below.then(|| (new.len(), dotted(old) + rest))
    });
    // The most precise place: a field rather than the object around it.
    places.max().map(|(_, place)| place)
}

fn up(source: &Map<String, Value>) -> Map<String, Value> {
    let mut target = Map::new();
    copy_rest(source, &mut target);
    for (from, to) in PRESENCES {
        if place(source, from).is_some_and(Value::is_object) {
            put(&mut target, to, Value::Object(Map::new()));
        }
    }
    for (from, to, upward) in FIELDS {
        let Some(value) = place(source, from) else {
            continue;
        };
        let means_absent = match upward {
            Upward::AsIs => false,
            Upward::UnlessZero => value.as_i64() == Some(0),
            Upward::UnlessEmpty => value == "",
            Upward::UnlessDefaultName => value == "llama-stack",
        };
        if !means_absent {
            put(&mut target, to, value.clone());
        }
    }
    // A namespace without a name refers to nothing.
    if place(&target, "/spec/overrideConfig").is_some()
        && place(&target, "/spec/overrideConfig/configMapName").is_none()
    {
        super::carried::take(&mut target, "/spec/overrideConfig");
    }
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if let Some(expose) = place(source, EXPOSE_V1ALPHA1) {
        put(&mut target, EXPOSE_V1ALPHA2, expose.clone());
    } else if place(source, "/spec/network").is_some_and(is_empty) {
        // An empty network already let the cluster's router in; so does a word about exposure.
        put(&mut target, EXPOSE_V1ALPHA2, Value::Bool(false));
    }
    if let Some(status) = source.get("status") {
        target.insert("status".to_owned(), status.clone());
    }
    target
}

fn down(source: &Map<String, Value>) -> Map<String, Value> {
    let mut target = Map::new();
    copy_rest(source, &mut target);
    for (to, from) in PRESENCES {
        if place(source, from).is_some_and(Value::is_object) {
            put(&mut target, to, Value::Object(Map::new()));
        }
    }
    for (to, from, _) in FIELDS {
        if let Some(value) = place(source, from) {
            put(&mut target, to, value.clone());
        }
    }
    if let (None, Some(target_cpu)) = (place(source, CPU_TARGET), place(source, CPU_TARGET_ALIAS)) {
        put(
            &mut target,
            "/spec/server/autoscaling/targetCPUUtilizationPercentage",
            target_cpu.clone(),
        );
    }
    let exposed = match place(source, EXPOSE_V1ALPHA2) {
        Some(Value::Bool(exposed)) => Some(*exposed),
        Some(Value::Object(expose)) => Some(expose.get("enabled") != Some(&Value::Bool(false))),
        _ => None,
    };
    if let Some(exposed) = exposed {
        put(&mut target, EXPOSE_V1ALPHA1, Value::Bool(exposed));
    }
    fill_in(&mut target);
    match source.get("status") {
        Some(Value::Object(status)) => {
            let known = STATUS
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), status.get(*key)?.clone())));
            target.insert("status".to_owned(), Value::Object(known.collect()));
        }
        Some(other) => {
            target.insert("status".to_owned(), other.clone());
        }
        None => {}
    }
    target
}

/// What the API server would fill in for v1alpha1. Done here, it is known to be nobody's word, and is
/// not taken for one when the resource is written back.
fn fill_in(target: &mut Map<String, Value>) {
    let is_there = |place: Option<&Value>| place.is_some_and(Value::is_object);
    let defaults = [
        ("/spec", "/spec/replicas", Value::from(1)),
        ("/spec/network", EXPOSE_V1ALPHA1, Value::Bool(false)),
    ];
    for (object, field, default) in defaults {
        if is_there(place(target, object)) && place(target, field).is_none() {
            put(target, field, default);
        }
    }
}

/// Everything beside spec and status is the same in both; a spec is there in both or in neither.
fn copy_rest(source: &Map<String, Value>, target: &mut Map<String, Value>) {
    for (key, value) in source {
        match key.as_str() {
            "status" => {}
            "spec" if value.is_object() => {
                target.insert(key.clone(), Value::Object(Map::new()));
            }
            _ => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

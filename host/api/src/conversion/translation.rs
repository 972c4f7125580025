//! Translates the fields of the table from one version to the other.

use serde_json::{Map, Value};

use super::annotations::{V1ALPHA1_FIELDS, V1ALPHA2_FIELDS};
use super::field_table::{
    AbsentIf, CPU_TARGET, CPU_TARGET_ALIAS, EXPOSE_V1ALPHA1, EXPOSE_V1ALPHA2, FIELDS, PRESENCES,
    STATUS, is_group,
};
use super::pointer;

/// One direction of the conversion, from the source version to the target version.
pub(super) struct Direction {
    /// Translates the fields of the table.
    pub(super) translate: fn(&Map<String, Value>) -> Map<String, Value>,
    /// Translates them back.
    pub(super) translate_back: fn(&Map<String, Value>) -> Map<String, Value>,
    /// The annotation of the source that preserves fields of the target.
    pub(super) source_annotation: &'static str,
    /// The annotation of the target that preserves fields of the source.
    pub(super) target_annotation: &'static str,
    /// Whether the object at a pointer of the source contains fields of the table.
    pub(super) is_source_group: fn(&str) -> bool,
    /// Whether the target records conflicts in an annotation.
    pub(super) records_conflicts: bool,
}

/// From v1alpha1 to v1alpha2.
pub(super) const UP: Direction = Direction {
    translate: up,
    translate_back: down,
    source_annotation: V1ALPHA2_FIELDS,
    target_annotation: V1ALPHA1_FIELDS,
    is_source_group: |pointer| is_group(pointer, |entry| entry.0),
    records_conflicts: true,
};

/// From v1alpha2 to v1alpha1.
pub(super) const DOWN: Direction = Direction {
    translate: down,
    translate_back: up,
    source_annotation: V1ALPHA1_FIELDS,
    target_annotation: V1ALPHA2_FIELDS,
    is_source_group: |pointer| is_group(pointer, |entry| entry.1),
    records_conflicts: false,
};

/// Converts the fields of the table from v1alpha1 to v1alpha2.
fn up(source: &Map<String, Value>) -> Map<String, Value> {
    let mut target = Map::new();
    copy_rest(source, &mut target);
    for (from, to) in PRESENCES {
        if pointer::get(source, from).is_some_and(Value::is_object) {
            pointer::set(&mut target, to, Value::Object(Map::new()));
        }
    }
    for (from, to, absent_if) in FIELDS {
        let Some(value) = pointer::get(source, from) else {
            continue;
        };
        let means_absent = match absent_if {
            AbsentIf::Never => false,
            AbsentIf::Zero => value.as_i64() == Some(0),
            AbsentIf::EmptyString => value == "",
            AbsentIf::DefaultContainerName => value == "llama-stack",
        };
        if !means_absent {
            pointer::set(&mut target, to, value.clone());
        }
    }
    // A namespace without a name is not a reference to a ConfigMap.
    if pointer::get(&target, "/spec/overrideConfig").is_some()
        && pointer::get(&target, "/spec/overrideConfig/configMapName").is_none()
    {
        pointer::remove(&mut target, "/spec/overrideConfig");
    }
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if let Some(expose) = pointer::get(source, EXPOSE_V1ALPHA1) {
        pointer::set(&mut target, EXPOSE_V1ALPHA2, expose.clone());
    } else if pointer::get(source, "/spec/network").is_some_and(is_empty) {
        // In v1alpha1, an empty network admits the router of the cluster. Setting expose, even to
        // false, has the same effect in v1alpha2.
        pointer::set(&mut target, EXPOSE_V1ALPHA2, Value::Bool(false));
    }
    if let Some(status) = source.get("status") {
        target.insert("status".to_owned(), status.clone());
    }
    target
}

/// Converts the fields of the table from v1alpha2 to v1alpha1.
fn down(source: &Map<String, Value>) -> Map<String, Value> {
    let mut target = Map::new();
    copy_rest(source, &mut target);
    for (to, from) in PRESENCES {
        if pointer::get(source, from).is_some_and(Value::is_object) {
            pointer::set(&mut target, to, Value::Object(Map::new()));
        }
    }
    for (to, from, _) in FIELDS {
        if let Some(value) = pointer::get(source, from) {
            pointer::set(&mut target, to, value.clone());
        }
    }
    if let (None, Some(target_cpu)) = (
        pointer::get(source, CPU_TARGET),
        pointer::get(source, CPU_TARGET_ALIAS),
    ) {
        pointer::set(
            &mut target,
            "/spec/server/autoscaling/targetCPUUtilizationPercentage",
            target_cpu.clone(),
        );
    }
    let exposed = match pointer::get(source, EXPOSE_V1ALPHA2) {
        Some(Value::Bool(exposed)) => Some(*exposed),
        Some(Value::Object(expose)) => Some(expose.get("enabled") != Some(&Value::Bool(false))),
        _ => None,
    };
    if let Some(exposed) = exposed {
        pointer::set(&mut target, EXPOSE_V1ALPHA1, Value::Bool(exposed));
    }
    set_defaults(&mut target);
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

/// Sets the defaults of the v1alpha1 schema. If the API server set them, they would look like an edit
/// by the user when the resource is converted back.
fn set_defaults(target: &mut Map<String, Value>) {
    let is_object = |value: Option<&Value>| value.is_some_and(Value::is_object);
    let defaults = [
        ("/spec", "/spec/replicas", Value::from(1)),
        ("/spec/network", EXPOSE_V1ALPHA1, Value::Bool(false)),
    ];
    for (object, field, default) in defaults {
        if is_object(pointer::get(target, object)) && pointer::get(target, field).is_none() {
            pointer::set(target, field, default);
        }
    }
}

/// Copies everything except spec and status, which is the same in both versions. Adds an empty spec if
/// the source has one.
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

//! Resource limits of a plugin, set by the person who installs it and never by the plugin.
//!
//! Fuel is the deciding limit: it is deterministic, so the same input always passes or always fails.
//! The wall-clock limit is a backstop for slow machines. Every allocation that a guest can cause in
//! the host has a limit.

use std::time::Duration;

use llsd_api::schema_plugin::PluginLimits;
use llsd_api::{Diagnostic, FieldPath};
use llsd_render::adapter::{FaultKind, LimitedResource};
use wasmtime::ResourceLimiter;

use crate::engine::{GUESTS, GUESTS_OF_COMPILER};

/// The limits of one plugin.
///
/// [`Limits::default`] is ample for an adapter written in Rust. A component that contains a
/// JavaScript engine needs higher `component_bytes`, `instances` and compile limits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Fuel of one call, including instantiation. Default 1,000,000,000, about one second. A typical
    /// call uses 1/200 of it, a call with a thousand providers a large part.
    pub fuel: u64,
    /// Wall-clock time of one call. Default 5 s: several times longer than the fuel lasts on a slow
    /// machine, so that fuel runs out first.
    pub wall_clock: Duration,
    /// Linear memory of one call, all memories together. Default 64 MiB.
    pub memory_bytes: usize,
    /// Table elements of one call, all tables together. Default 20,000.
    pub table_elements: usize,
    /// Core instances of one component. Default 32; Rust needs two or three.
    pub instances: usize,
    /// Size of the output of one call, including diagnostics. Default 2 MiB; a ConfigMap holds 1 MiB.
    pub output_bytes: usize,
    /// Number of JSON values in the output of one call. Default 100,000. A value needs up to 50 times as much
    /// memory as its text.
    pub output_values: usize,
    /// Number of diagnostics in the output of one call. Default 2,048.
    pub diagnostics: usize,
    /// Size of each string of a diagnostic; longer ones are truncated. Default 4 KiB.
    pub diagnostic_bytes: usize,
    /// Size of a component. Default 4 MiB.
    pub component_bytes: usize,
    /// Memory of the child process that inspects and compiles. Default 192 MiB; an adapter of
    /// 600 KiB needs less than 96 MiB.
    pub compile_memory_bytes: u64,
    /// CPU time of compiling. Default 30 s. It may take twenty times as long if the machine is busy.
    pub compile_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 1_000_000_000,
            wall_clock: Duration::from_secs(5),
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            instances: 32,
            output_bytes: 2 << 20,
            output_values: 100_000,
            diagnostics: 2_048,
            diagnostic_bytes: 4 << 10,
            component_bytes: 4 << 20,
            compile_memory_bytes: 192 << 20,
            compile_time: Duration::from_secs(30),
        }
    }
}

/// Memory of the process itself: the binary, caches, watches and requests.
const OWN_MEMORY_BYTES: u64 = 160 << 20;

impl Limits {
    /// The limits that a `SchemaPlugin`, or a file in the same form, grants. What it does not state has
    /// its default. `path` is the path of the limits, for the diagnostic.
    pub fn granted(stated: &PluginLimits, path: &FieldPath) -> Result<Self, Diagnostic> {
        let PluginLimits {
            fuel,
            memory,
            wall_clock_millis,
            output,
            component,
            table_elements,
            instances,
            compile_memory,
            compile_time_millis,
        } = stated;
        let mut limits = Self::default();
        let size = |name: &str, text: Option<&String>, limit: &mut usize| {
            let Some(text) = text else { return Ok(()) };
            *limit = bytes_of(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
                let problem = format!("{text:?} is not a valid size in bytes");
                Diagnostic::error(path.field(name), problem, "write it like \"4Mi\"")
            })?;
            Ok(())
        };
        let mut compile_memory_bytes = limits.compile_memory_bytes as usize;
        for (name, text, limit) in [
            (
                "memory",
                memory.as_ref().map(|q| &q.0),
                &mut limits.memory_bytes,
            ),
            (
                "output",
                output.as_ref().map(|q| &q.0),
                &mut limits.output_bytes,
            ),
            (
                "component",
                component.as_ref().map(|q| &q.0),
                &mut limits.component_bytes,
            ),
            (
                "compileMemory",
                compile_memory.as_ref().map(|q| &q.0),
                &mut compile_memory_bytes,
            ),
        ] {
            size(name, text, limit)?;
        }
        limits.compile_memory_bytes = compile_memory_bytes as u64;
        let number = |name: &str, value: &Option<i64>, most: u64| match value {
            None => Ok(None),
            Some(value) => match u64::try_from(*value) {
                Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
                _ => Err(Diagnostic::error(
                    path.field(name),
                    format!("{value} is out of range"),
                    format!("use a number from 1 to {most}"),
                )),
            },
        };
        if let Some(fuel) = number("fuel", fuel, 100_000_000_000)? {
            limits.fuel = fuel;
        }
        if let Some(millis) = number("wallClockMillis", wall_clock_millis, 60_000)? {
            limits.wall_clock = Duration::from_millis(millis);
        }
        if let Some(elements) = number("tableElements", table_elements, 1_000_000)? {
            limits.table_elements = elements as usize;
        }
        if let Some(count) = number("instances", instances, 1_000)? {
            limits.instances = count as usize;
        }
        if let Some(millis) = number("compileTimeMillis", compile_time_millis, 600_000)? {
            limits.compile_time = Duration::from_millis(millis);
        }
        Ok(limits)
    }

    /// The most memory that the process and its compiler use together, if every guest and the compiler
    /// reach their limits at the same time. A pod needs at least as much.
    pub fn peak_memory_bytes(&self) -> u64 {
        let guests = |count: usize| (count * self.memory_bytes) as u64;
        let while_compiling = self.compile_memory_bytes + guests(GUESTS - GUESTS_OF_COMPILER);
        OWN_MEMORY_BYTES + while_compiling.max(guests(GUESTS))
    }
}

/// Parses a Kubernetes quantity as a number of bytes.
fn bytes_of(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// Maximum number of memories and tables of a component. Each is cheap; [`Limits`] bounds their
/// total size.
pub(crate) const MEMORIES: usize = 8;
pub(crate) const TABLES: usize = 32;

/// Enforces the limits on what a store allocates for a guest.
///
/// Sizes are summed over all memories and all tables of the store, so a component gains nothing by
/// having several.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: Usage,
    table: Usage,
    instances: usize,
    exceeded: Option<ExceededLimit>,
}

/// A limit that the guest exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExceededLimit {
    resource: LimitedResource,
    limit: usize,
}

#[derive(Debug)]
struct Usage {
    resource: LimitedResource,
    used: usize,
    limit: usize,
}

/// Ends the call. Returning `false` from [`ResourceLimiter`] would let the guest continue after a
/// failed `memory.grow`.
#[derive(Debug, thiserror::Error)]
#[error("exceeded the limit of {} {}", .0.limit, .0.resource)]
struct GrowthDenied(ExceededLimit);

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: Usage {
                resource: LimitedResource::MemoryBytes,
                used: 0,
                limit: limits.memory_bytes,
            },
            table: Usage {
                resource: LimitedResource::TableElements,
                used: 0,
                limit: limits.table_elements,
            },
            instances: limits.instances,
            exceeded: None,
        }
    }

    /// The first limit that the guest exceeded.
    pub(crate) fn exceeded(&self) -> Option<ExceededLimit> {
        self.exceeded
    }

    /// Current size of the guest's linear memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.used
    }

    fn allow(&mut self, growth: Result<(), ExceededLimit>) -> wasmtime::Result<bool> {
        match growth {
            Ok(()) => Ok(true),
            Err(exceeded) => {
                self.exceeded.get_or_insert(exceeded);
                Err(GrowthDenied(exceeded).into())
            }
        }
    }
}

impl Usage {
    fn grow(&mut self, current: usize, desired: usize) -> Result<(), ExceededLimit> {
        let after = self.used.saturating_add(desired.saturating_sub(current));
        if after > self.limit {
            return Err(ExceededLimit {
                resource: self.resource,
                limit: self.limit,
            });
        }
        self.used = after;
        Ok(())
    }
}

impl From<ExceededLimit> for FaultKind {
    fn from(ExceededLimit { resource, limit }: ExceededLimit) -> Self {
        Self::LimitExceeded {
            resource,
            limit: limit as u64,
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = self.memory.grow(current, desired);
        self.allow(growth)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = self.table.grow(current, desired);
        self.allow(growth)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(json: serde_json::Value) -> Result<Limits, String> {
        let stated = serde_json::from_value(json).unwrap();
        Limits::granted(&stated, &FieldPath::spec().field("limits")).map_err(|e| e.to_string())
    }

    #[test]
    fn everything_that_can_be_granted_is_granted() {
        let all = serde_json::json!({
            "fuel": 7, "memory": "32Mi", "wallClockMillis": 8, "output": "1Ki", "component": "9M",
            "tableElements": 10, "instances": 11, "compileMemory": "1Gi", "compileTimeMillis": 12,
        });
        let stated = all.as_object().unwrap();
        assert!(
            PluginLimits::FIELDS
                .iter()
                .all(|field| stated.contains_key(*field))
        );
        assert_eq!(stated.len(), PluginLimits::FIELDS.len());
        let limits = granted(all).unwrap();
        let expected = Limits {
            fuel: 7,
            memory_bytes: 32 << 20,
            wall_clock: Duration::from_millis(8),
            output_bytes: 1 << 10,
            component_bytes: 9_000_000,
            table_elements: 10,
            instances: 11,
            compile_memory_bytes: 1 << 30,
            compile_time: Duration::from_millis(12),
            ..Limits::default()
        };
        assert_eq!(limits, expected);
        assert_eq!(granted(serde_json::json!({})).unwrap(), Limits::default());
    }

    #[test]
    fn a_limit_that_cannot_be_granted_is_named() {
        for (json, message) in [
            (
                serde_json::json!({"compileMemory": "lots"}),
                "spec.limits.compileMemory: \"lots\" is not a valid size in bytes; write it like \"4Mi\"",
            ),
            (
                serde_json::json!({"instances": 0}),
                "spec.limits.instances: 0 is out of range; use a number from 1 to 1000",
            ),
        ] {
            assert_eq!(granted(json).unwrap_err(), message);
        }
    }

    #[test]
    fn several_memories_share_one_limit() {
        let mut meter = Meter::new(&Limits {
            memory_bytes: 100,
            ..Limits::default()
        });
        assert!(meter.memory_growing(0, 60, None).is_ok());
        assert!(meter.memory_growing(0, 60, None).is_err());
        assert_eq!(
            meter.exceeded(),
            Some(ExceededLimit {
                resource: LimitedResource::MemoryBytes,
                limit: 100
            })
        );
        assert_eq!(meter.memory_bytes(), 60);
    }

    #[test]
    fn the_pod_of_the_operator_has_the_memory_for_all_limits_together() {
        let yaml = |text: &str| llsd_render::yaml::read(text).unwrap();
        let deployment = yaml(include_str!(
            "../../../deploy/kustomize/operator/deployment.yaml"
        ));
        let values = yaml(include_str!("../../../deploy/helm/llsd/values.yaml"));
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        for resources in [&container["resources"], &values["resources"]] {
            let text = resources["limits"]["memory"].as_str().unwrap();
            let mebibytes: u64 = text.strip_suffix("Mi").unwrap().parse().unwrap();
            let needed = Limits::default().peak_memory_bytes();
            assert!(needed <= mebibytes << 20, "{needed} bytes in {text}");
        }
    }
}

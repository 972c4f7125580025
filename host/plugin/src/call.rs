//! One call of one guest in a new store with its limits.
//!
//! In: a component ready to be instantiated, a request, the limits. Out: the output and the fuel
//! used, or a [`FaultKind`] that metrics and users can tell apart. No state is carried from one call
//! to the next.

use std::time::{Duration, Instant};

use llsd_adapter_sdk::Detection;
use llsd_render::adapter::{FaultKind, LimitedResource};
use wasmtime::{Engine, Store, Trap, WasmBacktrace};

use crate::bindings::v1_0::{provider_pack, schema_adapter};
use crate::engine::{GUEST_STACK, Sandbox, ticks};
use crate::limits::{Limits, MEMORIES, Meter, TABLES};
use crate::load::{LoadError, error_chain};
use crate::request::{RawOutput, Request};

/// Stack for the host's own frames: lowering, lifting and trap handling.
const HOST_STACK: usize = 512 << 10;

/// Bytes that the host allocates for each diagnostic besides its strings.
const DIAGNOSTIC_OVERHEAD: usize = 128;

/// A component bound to the world that it exports.
pub(crate) enum BoundComponent {
    SchemaAdapter(schema_adapter::SchemaAdapterPre<Meter>),
    ProviderPack(provider_pack::ProviderPackPre<Meter>),
}

/// The result of running a guest, and what it used.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) result: Result<RawOutput, FaultKind>,
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) duration: Duration,
}

impl BoundComponent {
    /// Instantiates the component in a new store and calls one function.
    pub(crate) fn run(&self, sandbox: &Sandbox, limits: &Limits, request: &Request) -> Execution {
        let _permit = sandbox.acquire();
        with_guest_stack(|| {
            let started = Instant::now();
            let mut store = store(&sandbox.engine, limits);
            let result = store
                .set_fuel(limits.fuel)
                .and_then(|()| self.call(&mut store, request));
            let remaining = store.get_fuel().unwrap_or(0);
            Execution {
                result: result.map_err(|error| fault(&error, store.data(), limits)),
                fuel: limits.fuel.saturating_sub(remaining),
                memory_bytes: store.data().memory_bytes(),
                duration: started.elapsed(),
            }
        })
    }

    /// Instantiates the component without calling a function. Fails if the types of its functions
    /// differ from the contract.
    pub(crate) fn check(&self, sandbox: &Sandbox, limits: &Limits) -> Result<(), LoadError> {
        let _permit = sandbox.acquire();
        with_guest_stack(|| {
            let mut store = store(&sandbox.engine, limits);
            let result = store.set_fuel(limits.fuel).and_then(|()| match self {
                Self::SchemaAdapter(pre) => pre.instantiate(&mut store).map(drop),
                Self::ProviderPack(pre) => pre.instantiate(&mut store).map(drop),
            });
            result.map_err(|error| match fault(&error, store.data(), limits) {
                FaultKind::InvalidOutput(_) => LoadError::Incompatible(error_chain(&error)),
                kind => LoadError::Describe(kind),
            })
        })
    }

    fn call(&self, store: &mut Store<Meter>, request: &Request) -> wasmtime::Result<RawOutput> {
        match self {
            Self::SchemaAdapter(pre) => call_schema_adapter(pre, store, request),
            Self::ProviderPack(pre) => call_provider_pack(pre, store, request),
        }
    }
}

/// Calls `describe`, which both worlds export. Their bindings are separate types without a common trait.
macro_rules! describe {
    ($guest:ident, $store:ident) => {{
        let identity = $guest.llamastack_config_adapter_identity();
        RawOutput::Description(identity.call_describe($store)?.into())
    }};
}

/// Calls `expand`, which both worlds export.
macro_rules! expand {
    ($world:ident, $guest:ident, $store:ident, $request:ident) => {{
        let expansion = $guest.llamastack_config_adapter_expansion();
        let expanded = expansion.call_expand($store, &$request.into())?;
        RawOutput::Outcome($world::from_wire(expanded))
    }};
}

fn call_schema_adapter(
    pre: &schema_adapter::SchemaAdapterPre<Meter>,
    store: &mut Store<Meter>,
    request: &Request,
) -> wasmtime::Result<RawOutput> {
    use schema_adapter::exports::llamastack::config_adapter::detection::Answer;
    let guest = pre.instantiate(&mut *store)?;
    Ok(match request {
        Request::Describe => describe!(guest, store),
        Request::Detect { base, hints } => {
            let detection = guest.llamastack_config_adapter_detection();
            let detected = detection.call_detect(store, &base.into(), &hints.into())?;
            RawOutput::Detection(match detected {
                Answer::One(id) => Detection::One(id),
                Answer::OneOf(ids) => Detection::OneOf(ids),
                Answer::None => Detection::None,
            })
        }
        Request::Expand(request) => expand!(schema_adapter, guest, store, request),
        Request::Assemble(request) => {
            let assembly = guest.llamastack_config_adapter_assembly();
            let assembled = assembly.call_assemble(store, &request.into())?;
            RawOutput::Outcome(schema_adapter::from_wire(assembled))
        }
    })
}

fn call_provider_pack(
    pre: &provider_pack::ProviderPackPre<Meter>,
    store: &mut Store<Meter>,
    request: &Request,
) -> wasmtime::Result<RawOutput> {
    let guest = pre.instantiate(&mut *store)?;
    Ok(match request {
        Request::Describe => describe!(guest, store),
        Request::Expand(request) => expand!(provider_pack, guest, store, request),
        Request::Detect { .. } | Request::Assemble(_) => {
            return Err(NotExported(request.call()).into());
        }
    })
}

/// Runs on the caller's stack if enough of it is left, and on a new one otherwise. A guest that
/// recurses without end must reach its own stack limit before the thread's.
fn with_guest_stack<T>(run: impl FnOnce() -> T) -> T {
    let needed = GUEST_STACK + HOST_STACK;
    stacker::maybe_grow(needed, 2 * needed, run)
}

/// A store with every limit except the fuel.
fn store(engine: &Engine, limits: &Limits) -> Store<Meter> {
    let mut store = Store::new(engine, Meter::new(limits));
    store.limiter(|meter| meter);
    store.set_epoch_deadline(ticks(limits.wall_clock));
    store.set_hostcall_fuel(
        limits
            .output_bytes
            .saturating_add(limits.diagnostics.saturating_mul(DIAGNOSTIC_OVERHEAD)),
    );
    store
}

/// A function that only the other world exports.
#[derive(Debug, thiserror::Error)]
#[error("a provider pack does not export {0}; call it on a schema adapter")]
struct NotExported(&'static str);

/// Classifies the error that ended a call.
fn fault(error: &wasmtime::Error, meter: &Meter, limits: &Limits) -> FaultKind {
    if let Some(exceeded) = meter.exceeded() {
        return exceeded.into();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => FaultKind::OutOfFuel { limit: limits.fuel },
        Some(Trap::Interrupt) => FaultKind::OutOfTime {
            limit_ms: u64::try_from(limits.wall_clock.as_millis()).unwrap_or(u64::MAX),
        },
        Some(trap) => FaultKind::Trapped {
            message: trap
                .to_string()
                .trim_start_matches("wasm trap: ")
                .to_owned(),
            functions: functions(error),
        },
        None => engine_fault(&error.root_cause().to_string(), limits),
    }
}

/// Classifies an error that is not a trap: the engine could not instantiate the component, or could
/// not read the output from the guest's memory.
fn engine_fault(message: &str, limits: &Limits) -> FaultKind {
    // The engine has no error types for these. Tests check the wording.
    if let Some(counted) = message.strip_prefix("resource limit exceeded: ") {
        let (resource, limit) = match counted.split(' ').next() {
            Some("memory") => (LimitedResource::Memories, MEMORIES),
            Some("table") => (LimitedResource::Tables, TABLES),
            _ => (LimitedResource::Instances, limits.instances),
        };
        return FaultKind::LimitExceeded {
            resource,
            limit: limit as u64,
        };
    }
    if message.contains("fuel allocated for hostcalls has been exhausted") {
        return FaultKind::LimitExceeded {
            resource: LimitedResource::OutputBytes,
            limit: limits.output_bytes as u64,
        };
    }
    FaultKind::InvalidOutput(message.to_owned())
}

/// Names of the functions on the guest's stack, innermost first.
fn functions(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    backtrace
        .frames()
        .iter()
        .map(|frame| match frame.func_name() {
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("function {}", frame.func_index()),
        })
        .collect()
}

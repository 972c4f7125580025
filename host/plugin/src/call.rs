//! One call of one guest in a new store with its limits.
//!
//! A guest runs on a stack of its own, and is suspended each time it has used [`SLICE`] of its fuel. Then the
//! host checks the time, and a call that takes too long ends there. So the guest itself needs no instructions
//! that check the time (decision 28).
//!
//! In: a component ready to be instantiated, a request, the limits. Out: the output and the fuel
//! used, or a [`FaultKind`] that metrics and users can tell apart. No state is carried from one call
//! to the next.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use llsd_adapter_sdk::Detection;
use llsd_render::adapter::{FaultKind, LimitedResource};
use wasmtime::{Engine, Store, Trap, WasmBacktrace};

use crate::bindings::v1_0::{provider_pack, schema_adapter};
use crate::engine::Sandbox;
use crate::limits::{Limits, MEMORIES, Meter, TABLES};
use crate::load::{LoadError, error_chain};
use crate::request::{RawOutput, Request};

/// The fuel after which the time of a call is checked: about ten milliseconds.
const SLICE: u64 = 10_000_000;

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
        let started = Instant::now();
        let mut store = store(&sandbox.engine, limits);
        let result = set_fuel(&mut store, limits).and_then(|()| {
            let call = self.call(&mut store, request);
            run_within(limits.wall_clock, call)
        });
        let remaining = store.get_fuel().unwrap_or(0);
        Execution {
            result: result.map_err(|error| fault(&error, store.data(), limits)),
            fuel: limits.fuel.saturating_sub(remaining),
            memory_bytes: store.data().memory_bytes(),
            duration: started.elapsed(),
        }
    }

    /// Instantiates the component without calling a function. Fails if the types of its functions
    /// differ from the contract.
    pub(crate) fn check(&self, sandbox: &Sandbox, limits: &Limits) -> Result<(), LoadError> {
        let _permit = sandbox.acquire();
        let mut store = store(&sandbox.engine, limits);
        let result = set_fuel(&mut store, limits).and_then(|()| {
            let instantiation = self.instantiate(&mut store);
            run_within(limits.wall_clock, instantiation)
        });
        result.map_err(|error| match fault(&error, store.data(), limits) {
            FaultKind::InvalidOutput(_) => LoadError::Incompatible(error_chain(&error)),
            kind => LoadError::Describe(kind),
        })
    }

    async fn instantiate(&self, store: &mut Store<Meter>) -> wasmtime::Result<()> {
        match self {
            Self::SchemaAdapter(pre) => pre.instantiate_async(store).await.map(drop),
            Self::ProviderPack(pre) => pre.instantiate_async(store).await.map(drop),
        }
    }

    async fn call(
        &self,
        store: &mut Store<Meter>,
        request: &Request,
    ) -> wasmtime::Result<RawOutput> {
        match self {
            Self::SchemaAdapter(pre) => call_schema_adapter(pre, store, request).await,
            Self::ProviderPack(pre) => call_provider_pack(pre, store, request).await,
        }
    }
}

/// Calls `describe`, which both worlds export. Their bindings are separate types without a common trait.
macro_rules! describe {
    ($guest:ident, $store:ident) => {{
        let identity = $guest.llamastack_config_adapter_identity();
        RawOutput::Description(identity.call_describe($store).await?.into())
    }};
}

/// Calls `expand`, which both worlds export.
macro_rules! expand {
    ($world:ident, $guest:ident, $store:ident, $request:ident) => {{
        let expansion = $guest.llamastack_config_adapter_expansion();
        let expanded = expansion.call_expand($store, &$request.into()).await?;
        RawOutput::Outcome($world::from_wire(expanded))
    }};
}

async fn call_schema_adapter(
    pre: &schema_adapter::SchemaAdapterPre<Meter>,
    store: &mut Store<Meter>,
    request: &Request,
) -> wasmtime::Result<RawOutput> {
    use schema_adapter::exports::llamastack::config_adapter::detection::Answer;
    let guest = pre.instantiate_async(&mut *store).await?;
    Ok(match request {
        Request::Describe => describe!(guest, store),
        Request::Detect { base, hints } => {
            let detection = guest.llamastack_config_adapter_detection();
            let detected = detection
                .call_detect(store, &base.into(), &hints.into())
                .await?;
            RawOutput::Detection(match detected {
                Answer::One(id) => Detection::One(id),
                Answer::OneOf(ids) => Detection::OneOf(ids),
                Answer::None => Detection::None,
            })
        }
        Request::Expand(request) => expand!(schema_adapter, guest, store, request),
        Request::Assemble(request) => {
            let assembly = guest.llamastack_config_adapter_assembly();
            let assembled = assembly.call_assemble(store, &request.into()).await?;
            RawOutput::Outcome(schema_adapter::from_wire(assembled))
        }
    })
}

async fn call_provider_pack(
    pre: &provider_pack::ProviderPackPre<Meter>,
    store: &mut Store<Meter>,
    request: &Request,
) -> wasmtime::Result<RawOutput> {
    let guest = pre.instantiate_async(&mut *store).await?;
    Ok(match request {
        Request::Describe => describe!(guest, store),
        Request::Expand(request) => expand!(provider_pack, guest, store, request),
        Request::Detect { .. } | Request::Assemble(_) => {
            return Err(NotExported(request.call()).into());
        }
    })
}

/// Runs a guest to its end, unless it takes longer than `limit`.
fn run_within<T>(
    limit: Duration,
    guest: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let started = Instant::now();
    let mut guest = pin!(guest);
    // The guest waits for nothing: it can continue at once.
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match guest.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending if started.elapsed() < limit => {}
            Poll::Pending => return Err(OutOfTime.into()),
        }
    }
}

/// A store with every limit except the fuel.
fn store(engine: &Engine, limits: &Limits) -> Store<Meter> {
    let mut store = Store::new(engine, Meter::new(limits));
    store.limiter(|meter| meter);
    store.set_hostcall_fuel(
        limits
            .output_bytes
            .saturating_add(limits.diagnostics.saturating_mul(DIAGNOSTIC_OVERHEAD)),
    );
    store
}

/// Grants the fuel of a call, in slices.
fn set_fuel(store: &mut Store<Meter>, limits: &Limits) -> wasmtime::Result<()> {
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(SLICE))
}

/// Ends a call that takes too long.
#[derive(Debug, thiserror::Error)]
#[error("the time limit was reached")]
struct OutOfTime;

/// A function that only the other world exports.
#[derive(Debug, thiserror::Error)]
#[error("a provider pack does not export {0}; call it on a schema adapter")]
struct NotExported(&'static str);

/// Classifies the error that ended a call.
fn fault(error: &wasmtime::Error, meter: &Meter, limits: &Limits) -> FaultKind {
    if let Some(exceeded) = meter.exceeded() {
        return exceeded.into();
    }
    if error.is::<OutOfTime>() {
        return FaultKind::OutOfTime {
            limit_ms: u64::try_from(limits.wall_clock.as_millis()).unwrap_or(u64::MAX),
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => FaultKind::OutOfFuel { limit: limits.fuel },
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

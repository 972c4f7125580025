//! One call of one guest: a fresh store, its limits, and what came out.
//!
//! In: a component ready to be instantiated, a request, the limits. Out: the answer with its fuel,
//! or what went wrong, told apart so that a metric and a reader can act on it. Nothing of one call
//! can be seen by the next.

use std::time::{Duration, Instant};

use llsd_adapter_sdk::exchange::Text;
use llsd_adapter_sdk::{Answer, Detection};
use llsd_render::adapter::FaultKind;
use wasmtime::{Engine, Store, Trap, WasmBacktrace};

use crate::bindings::v1_0::{provider_pack, schema_adapter};
use crate::engine::{GUEST_STACK, Sandbox, ticks};
use crate::limits::{Limits, MEMORIES, Meter, TABLES};
use crate::load::{LoadError, chain};
use crate::request::{RawAnswer, Request};

/// Stack that the host needs around the guest's: lowering, lifting, trap handling.
const HOST_STACK: usize = 512 << 10;

/// What the host allocates for one diagnostic besides its text.
const DIAGNOSTIC_OVERHEAD: usize = 128;

/// A component bound to the world that it serves.
pub(crate) enum Bound {
    SchemaAdapter(schema_adapter::SchemaAdapterPre<Meter>),
    ProviderPack(provider_pack::ProviderPackPre<Meter>),
}

/// What a call gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) result: Result<RawAnswer, FaultKind>,
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) duration: Duration,
}

impl Bound {
    /// Instantiates the component in a fresh store and calls one function.
    ///
    /// Runs on the caller's thread when that has enough stack left, and on a stack of its own
    /// otherwise: a guest that recurses without end must meet its own limit before the thread's.
    pub(crate) fn run(&self, sandbox: &Sandbox, limits: &Limits, request: &Request) -> Ran {
        let needed = GUEST_STACK + HOST_STACK;
        let _place = sandbox.enter();
        stacker::maybe_grow(needed, 2 * needed, || {
            self.run_here(&sandbox.engine, limits, request)
        })
    }

    /// Instantiates the component and calls nothing: finds functions whose types are not the
    /// contract's.
    pub(crate) fn check(&self, sandbox: &Sandbox, limits: &Limits) -> Result<(), LoadError> {
        let needed = GUEST_STACK + HOST_STACK;
        let _place = sandbox.enter();
        stacker::maybe_grow(needed, 2 * needed, || {
            let mut store = store(&sandbox.engine, limits);
            let result = store.set_fuel(limits.fuel).and_then(|()| match self {
                Self::SchemaAdapter(pre) => pre.instantiate(&mut store).map(drop),
                Self::ProviderPack(pre) => pre.instantiate(&mut store).map(drop),
            });
            result.map_err(|error| match fault(&error, store.data(), limits) {
                FaultKind::BadAnswer(_) => LoadError::Incompatible(chain(&error)),
                kind => LoadError::Describe(kind),
            })
        })
    }

    fn run_here(&self, engine: &Engine, limits: &Limits, request: &Request) -> Ran {
        let started = Instant::now();
        let mut store = store(engine, limits);
        let result = store
            .set_fuel(limits.fuel)
            .and_then(|()| self.ask(&mut store, request));
        let left = store.get_fuel().unwrap_or(0);
        Ran {
            result: result.map_err(|error| fault(&error, store.data(), limits)),
            fuel: limits.fuel.saturating_sub(left),
            memory_bytes: store.data().memory_bytes(),
            duration: started.elapsed(),
        }
    }

    fn ask(&self, store: &mut Store<Meter>, request: &Request) -> wasmtime::Result<RawAnswer> {
        match self {
            Self::SchemaAdapter(pre) => {
                let guest = pre.instantiate(&mut *store)?;
                match request {
                    Request::Describe => {
                        let described = guest
                            .llamastack_config_adapter_identity()
                            .call_describe(store)?;
                        Ok(RawAnswer::Description(described.into()))
                    }
                    Request::Detect { base, hints } => {
                        use schema_adapter::exports::llamastack::config_adapter::detection::Answer;
                        let detection = guest.llamastack_config_adapter_detection();
                        Ok(RawAnswer::Detection(
                            match detection.call_detect(store, &base.into(), &hints.into())? {
                                Answer::One(id) => Detection::One(id),
                                Answer::OneOf(ids) => Detection::OneOf(ids),
                                Answer::None => Detection::None,
                            },
                        ))
                    }
                    Request::Expand(request) => outcome(schema_adapter::from_wire(
                        guest
                            .llamastack_config_adapter_expansion()
                            .call_expand(store, &request.into())?,
                    )),
                    Request::Assemble(request) => outcome(schema_adapter::from_wire(
                        guest
                            .llamastack_config_adapter_assembly()
                            .call_assemble(store, &request.into())?,
                    )),
                }
            }
            Self::ProviderPack(pre) => {
                let guest = pre.instantiate(&mut *store)?;
                match request {
                    Request::Describe => {
                        let described = guest
                            .llamastack_config_adapter_identity()
                            .call_describe(store)?;
                        Ok(RawAnswer::Description(described.into()))
                    }
                    Request::Expand(request) => outcome(provider_pack::from_wire(
                        guest
                            .llamastack_config_adapter_expansion()
                            .call_expand(store, &request.into())?,
                    )),
                    Request::Detect { .. } | Request::Assemble(_) => {
                        Err(NotServed(request.call()).into())
                    }
                }
            }
        }
    }
}

/// A store with everything limited but its fuel.
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

/// A function of the other world.
#[derive(Debug, thiserror::Error)]
#[error("a provider pack has no {0}; ask a schema adapter")]
struct NotServed(&'static str);

fn outcome(answer: Answer<Text>) -> wasmtime::Result<RawAnswer> {
    Ok(RawAnswer::Outcome(answer))
}

/// Tells apart what can end a call.
fn fault(error: &wasmtime::Error, meter: &Meter, limits: &Limits) -> FaultKind {
    if let Some(refused) = meter.refused() {
        return FaultKind::OverLimit {
            what: refused.what,
            granted: refused.granted,
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => FaultKind::OutOfFuel {
            granted: limits.fuel,
        },
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
        None => refused_by_engine(&error.root_cause().to_string(), limits),
    }
}

/// What ended a call without a trap: the engine refused to instantiate, or could not read the
/// answer out of the guest's memory.
fn refused_by_engine(message: &str, limits: &Limits) -> FaultKind {
    // The engine has no types for these; tests hold the wording.
    if let Some(counted) = message.strip_prefix("resource limit exceeded: ") {
        let (what, granted) = match counted.split(' ').next() {
            Some("memory") => ("memories", MEMORIES),
            Some("table") => ("tables", TABLES),
            _ => ("instances", limits.instances),
        };
        return FaultKind::OverLimit {
            what,
            granted: granted as u64,
        };
    }
    if message.contains("fuel allocated for hostcalls has been exhausted") {
        return FaultKind::OverLimit {
            what: "output bytes",
            granted: limits.output_bytes as u64,
        };
    }
    FaultKind::BadAnswer(message.to_owned())
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

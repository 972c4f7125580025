//! The one engine of the process, and the thread that moves its clock.
//!
//! Every setting here either makes a guest's answer the same everywhere or takes away something
//! that a pure function does not need. The settings are part of the compile cache's key.

use std::time::Duration;

use wasmtime::{Config, Engine, OperatorCost, OptLevel, Strategy};

/// How often the epoch moves, and so how exact the wall-clock limit is.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Stack of a guest. More than adapters need, little enough for any thread.
pub(crate) const GUEST_STACK: usize = 512 << 10;

/// Frames that a trap names.
const FRAMES: usize = 16;

/// The engine with our settings and its ticker.
pub(crate) fn start() -> wasmtime::Result<Engine> {
    let engine = Engine::new(&config(true))?;
    tick(&engine);
    Ok(engine)
}

/// The engine with our settings, for compiling only, on one thread.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&config(false))
}

/// `is_parallel` concerns how fast a component is compiled, not what comes out.
fn config(is_parallel: bool) -> Config {
    let mut cost = OperatorCost::new();
    // Growing memory makes the host zero pages: charge it like a handful of instructions each.
    cost.variable.memory_grow_per_page = 64;

    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(is_parallel)
        // The verdicts: fuel first, the clock as the backstop.
        .consume_fuel(true)
        .operator_cost(cost)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        // Same input, same bytes, on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // Needless surface.
        .wasm_component_model(true)
        .concurrency_support(false)
        .shared_memory(false)
        .wasm_memory64(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .gc_support(false)
        // A trap names the functions on the stack; nothing of the guest's memory is written anywhere.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES))
        .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
        // Names need neither byte offsets nor unwind tables, which are a tenth of the machine code
        // and of the time to take it from the cache.
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

/// Moves the epoch for as long as somebody holds the engine.
///
/// Always on, whatever the limits. The thread sleeps between ticks instead of catching up, so that
/// a machine that stood still does not kill healthy guests with a burst of ticks.
fn tick(engine: &Engine) {
    let engine = engine.weak();
    let ticker = move || {
        loop {
            std::thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    };
    // Without the thread the wall clock would not be limited; fuel still is. A process that cannot
    // start a thread has worse problems, and says so here.
    if let Err(error) = std::thread::Builder::new()
        .name("plugin-epoch".into())
        .spawn(ticker)
    {
        tracing::error!(%error, "could not start the epoch thread; calls are limited by fuel alone");
    }
}

/// The epochs that a call may last: at least one whole tick more than asked for.
pub(crate) fn ticks(wall_clock: Duration) -> u64 {
    u64::try_from(wall_clock.as_millis().div_ceil(TICK.as_millis()))
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

//! The one engine of the process, and the thread that moves its clock.
//!
//! Every setting here either makes a guest's answer the same everywhere or takes away something
//! that a pure function does not need. The settings are part of the compile cache's key.

use std::time::Duration;

use wasmtime::{
    Config, Enabled, Engine, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

use crate::limits::{MEMORIES, TABLES};
use crate::places::{Place, Places};

/// How often the epoch moves, and so how exact the wall-clock limit is.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Stack of a guest. More than adapters need, little enough for any thread.
pub(crate) const GUEST_STACK: usize = 512 << 10;

/// Frames that a trap names.
const FRAMES: usize = 16;

/// Guests that run at the same time. They only compute, each for a fraction of a millisecond; what
/// they may hold of memory together is bounded.
const GUESTS: usize = 4;

/// What a place keeps of a guest's memory for the next one, overwritten: more than an ordinary call
/// touches.
const KEPT_MEMORY: usize = 1 << 20;

/// The engine of a host, and the places for guests in it.
pub(crate) struct Sandbox {
    pub(crate) engine: Engine,
    places: Places,
}

impl Sandbox {
    /// The engine with our settings and its ticker.
    ///
    /// Places are reserved in advance: to map and unmap memory for each call would take longer than
    /// most calls. Where so much address space is not to be had, each call maps its own.
    pub(crate) fn start() -> wasmtime::Result<Self> {
        let engine = match Engine::new(config(true).allocation_strategy(pool())) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(%error, "no address space for a pool of guests; calls will be slower");
                Engine::new(&config(true))?
            }
        };
        tick(&engine);
        Ok(Self {
            engine,
            places: Places::new(GUESTS),
        })
    }

    /// Waits for a place.
    pub(crate) fn enter(&self) -> Place<'_> {
        self.places.enter()
    }
}

/// Address space for [`GUESTS`] of the largest kind. Nothing is refused by the pool that
/// [`crate::Limits`] can grant, but a table of more than a million elements.
fn pool() -> PoolingAllocationConfig {
    let count = |each: usize| u32::try_from(GUESTS * each).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count(1))
        .total_core_instances(u32::MAX)
        .total_memories(count(MEMORIES))
        .total_tables(count(TABLES))
        .max_memory_size(1 << 32)
        .max_tables_per_module(TABLES as u32)
        .max_memories_per_module(MEMORIES as u32)
        .table_elements(1 << 20)
        .max_core_instance_size(16 << 20)
        .max_component_instance_size(16 << 20)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    pool
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

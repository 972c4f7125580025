//! The wasmtime engine, and the thread that increments its epoch.
//!
//! Every setting either makes a guest's output the same on every machine or disables something that
//! a pure function does not need. The settings are part of the compile cache's key.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use wasmtime::{
    Config, Enabled, Engine, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

use crate::limits::{MEMORIES, TABLES};
use crate::semaphore::{Permit, Semaphore};

/// Interval between epoch increments, and so the precision of the wall-clock limit.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Stack of a guest. More than adapters need, and small enough for any thread.
pub(crate) const GUEST_STACK: usize = 512 << 10;

/// Maximum number of functions in the backtrace of a trap.
const BACKTRACE_FRAMES: usize = 16;

/// Maximum number of guests that run at the same time, which bounds their total memory. Guests only
/// compute, each for a fraction of a millisecond.
pub(crate) const GUESTS: usize = 4;

/// Of these, how many do not run while a component is compiled, because the compiler needs their memory.
pub(crate) const GUESTS_OF_COMPILER: usize = 2;

/// Memory of a pool slot that stays resident, zeroed, for the next guest. More than a typical call
/// touches.
const RESIDENT_MEMORY: usize = 1 << 20;

/// The engine of a host, and the semaphore that limits concurrent guests.
pub(crate) struct Sandbox {
    pub(crate) engine: Engine,
    guests: Semaphore,
    /// One compiler at a time takes permits of `guests`, so that two do not wait for each other.
    compiler: Mutex<()>,
}

/// The permits of guests that do not run while a component is compiled.
pub(crate) struct Reserved<'s> {
    _guests: [Permit<'s>; GUESTS_OF_COMPILER],
    _compiler: MutexGuard<'s, ()>,
}

impl Sandbox {
    /// Creates the engine and starts its epoch thread.
    ///
    /// The pooling allocator reserves address space in advance, because mapping and unmapping memory
    /// takes longer than most calls. If the address space is not available, each call maps its own.
    pub(crate) fn start() -> wasmtime::Result<Self> {
        let engine = match Engine::new(config(true).allocation_strategy(pool())) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(%error, "failed to reserve address space for the pooling allocator; plugin calls will be slower");
                Engine::new(&config(true))?
            }
        };
        tick(&engine);
        Ok(Self {
            engine,
            guests: Semaphore::new(GUESTS),
            compiler: Mutex::default(),
        })
    }

    /// Waits until fewer guests run, and keeps it so, while a component is compiled.
    pub(crate) fn reserve_for_compiler(&self) -> Reserved<'_> {
        let compiler = self.compiler.lock();
        let guests = [(); GUESTS_OF_COMPILER].map(|()| self.guests.acquire());
        Reserved {
            _guests: guests,
            _compiler: compiler,
        }
    }

    /// Waits until a guest may run.
    pub(crate) fn acquire(&self) -> Permit<'_> {
        self.guests.acquire()
    }
}

/// A pool with address space for [`GUESTS`] guests of the maximum size. It allows everything that
/// [`crate::Limits`] can allow, except for a table of more than a million elements.
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
        .linear_memory_keep_resident(RESIDENT_MEMORY)
        .table_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// An engine with the same settings that only compiles, on one thread.
pub(crate) fn compiler() -> wasmtime::Result<Engine> {
    Engine::new(&config(false))
}

/// `is_parallel` affects the speed of compiling, not its result.
fn config(is_parallel: bool) -> Config {
    let mut cost = OperatorCost::new();
    // The host zeroes each new page, so charge as much as for a few instructions.
    cost.variable.memory_grow_per_page = 64;

    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(is_parallel)
        // Fuel is the deciding limit; epoch interruption is the backstop.
        .consume_fuel(true)
        .operator_cost(cost)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        // The same input must produce the same bytes on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // Features that a pure function does not need.
        .wasm_component_model(true)
        .concurrency_support(false)
        .shared_memory(false)
        .wasm_memory64(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .gc_support(false)
        // The backtrace of a trap has function names, and nothing from the guest's memory.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
        // Function names need neither byte offsets nor unwind tables. Those would add a tenth to the
        // machine code and to the time to load it from the cache.
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

/// Starts the thread that increments the epoch for as long as the engine exists.
///
/// The thread sleeps between ticks instead of catching up, so that a machine that was suspended does
/// not interrupt healthy guests with a burst of ticks.
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
    // Without the thread there is no wall-clock limit, but fuel still limits each call.
    if let Err(error) = std::thread::Builder::new()
        .name("plugin-epoch".into())
        .spawn(ticker)
    {
        tracing::error!(%error, "failed to start the epoch thread; only fuel limits plugin calls");
    }
}

/// The epoch deadline for a time limit: at least one whole tick longer than the limit.
pub(crate) fn ticks(wall_clock: Duration) -> u64 {
    u64::try_from(wall_clock.as_millis().div_ceil(TICK.as_millis()))
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

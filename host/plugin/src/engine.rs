//! The wasmtime engine, and the semaphore that limits how many guests run at the same time.
//!
//! Every setting either makes a guest's output the same on every machine or disables something that
//! a pure function does not need. The settings are part of the compile cache's key.

use parking_lot::{Mutex, MutexGuard};
use wasmtime::{
    Config, Enabled, Engine, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
};

use crate::limits::{MEMORIES, TABLES};
use crate::semaphore::{Permit, Semaphore};

/// Stack of a guest, more than adapters need.
const GUEST_STACK: usize = 512 << 10;

/// Stack for the host's own frames around a guest: lowering, lifting and trap handling.
const HOST_STACK: usize = 512 << 10;

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

/// Stack of a pool slot that stays resident, zeroed, for the next guest.
const RESIDENT_STACK: usize = 32 << 10;

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
    /// Creates the engine.
    ///
    /// The pooling allocator reserves address space in advance, because mapping and unmapping memory
    /// takes longer than most calls. If the address space is not available, each call maps its own.
    pub(crate) fn new() -> wasmtime::Result<Self> {
        let engine = match Engine::new(config(true).allocation_strategy(pool())) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(%error, "failed to reserve address space for the pooling allocator; plugin calls will be slower");
                Engine::new(&config(true))?
            }
        };
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
        .total_stacks(count(1))
        .max_memory_size(1 << 32)
        .max_tables_per_module(TABLES as u32)
        .max_memories_per_module(MEMORIES as u32)
        .table_elements(1 << 20)
        .max_core_instance_size(16 << 20)
        .max_component_instance_size(16 << 20)
        .linear_memory_keep_resident(RESIDENT_MEMORY)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(RESIDENT_STACK)
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
        .consume_fuel(true)
        .operator_cost(cost)
        // A guest that recurses without end must reach its own limit before the end of its stack.
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(GUEST_STACK + HOST_STACK)
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

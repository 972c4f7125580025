//! A bump allocator: a heap that only grows.
//!
//! An instance lives for one call and its memory ends with it, so reusing freed memory costs more than
//! it saves. Only the newest block can shrink, grow in place or be freed, which is what a growing
//! string needs. See decision 9.

#![allow(unsafe_code, reason = "an allocator hands out addresses")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::cell::Cell;
use std::ptr;

/// Size of a WebAssembly page.
const PAGE: usize = 64 << 10;
/// Pages to grow by at a time.
const STEP: usize = 12;

unsafe extern "C" {
    /// Start of the memory that the linker did not use.
    static __heap_base: u8;
}

/// The heap: allocated up to `next`, available up to `end`.
pub(crate) struct Arena {
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: the target has no threads.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self {
            next: Cell::new(0),
            end: Cell::new(0),
        }
    }

    /// Allocates `size` bytes at `start`, which is not below `next` unless the newest block grows.
    fn take(&self, start: usize, size: usize) -> Option<usize> {
        let end = start.checked_add(size)?;
        if end > self.end.get() {
            self.reach(end)?;
        }
        self.next.set(end);
        Some(start)
    }

    /// Grows the memory to include an address.
    #[cold]
    fn reach(&self, address: usize) -> Option<()> {
        let had = memory_size(0);
        let missing = address.div_ceil(PAGE).checked_sub(had)?;
        // The host may not grant the whole step.
        let granted = [missing.max(STEP), missing]
            .into_iter()
            .find(|pages| memory_grow(0, *pages) != usize::MAX)?;
        self.end.set((had + granted).saturating_mul(PAGE));
        Some(())
    }

    fn is_newest(&self, block: *mut u8, size: usize) -> bool {
        block.addr() + size == self.next.get()
    }
}

// SAFETY: blocks are between the linker's data and the end of the memory, are aligned, and do not
// overlap, because `next` moves past each. No other code grows the memory.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.end.get() == 0 {
            self.next.set((&raw const __heap_base).addr());
            self.end.set(memory_size(0) * PAGE);
        }
        let start = self.next.get().next_multiple_of(layout.align());
        let block = self.take(start, layout.size());
        block.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_newest(block, layout.size()) {
            self.next.set(block.addr());
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.is_newest(block, layout.size()) {
            return match self.take(block.addr(), size) {
                Some(_) => block,
                None => ptr::null_mut(),
            };
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller promises that the new size is valid for the alignment of the block.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not zero, as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: the old block is that long, the new one is longer, and they do not overlap.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size()) };
        }
        moved
    }
}

//! What a plugin may use, granted by whoever installs it and never by the plugin.
//!
//! Fuel decides: the same input always passes or always fails. The wall clock is only a backstop
//! against a slow machine. Everything that a guest can make the host allocate has a ceiling.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// The ceilings of one plugin.
///
/// [`Limits::default`] fits an adapter written in Rust with room to spare; a JavaScript engine
/// inside a component wants more of `component_bytes`, `instances` and the compile limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Fuel of one call, instantiation included. Default 1,000,000,000, about a second: an ordinary
    /// call burns a two-hundredth of it, one with a thousand providers a large part.
    pub fuel: u64,
    /// Wall-clock time of one call. Default 5 s: several times what the fuel lasts on a slow
    /// machine, so that fuel stays the verdict.
    pub wall_clock: Duration,
    /// Linear memory of one call, all memories together. Default 64 MiB.
    pub memory_bytes: usize,
    /// Table elements of one call, all tables together. Default 20,000.
    pub table_elements: usize,
    /// Core instances of one component. Default 32; Rust needs two or three.
    pub instances: usize,
    /// Bytes of one answer, diagnostics included. Default 2 MiB: a ConfigMap takes one.
    pub output_bytes: usize,
    /// Diagnostics in one answer. Default 2,048.
    pub diagnostics: usize,
    /// Bytes of one text of a diagnostic; the rest is cut off. Default 4 KiB.
    pub diagnostic_bytes: usize,
    /// Size of a component. Default 4 MiB.
    pub component_bytes: usize,
    /// Address space of the child process that compiles. Default 512 MiB; an adapter of 600 KiB
    /// takes less than 96.
    pub compile_memory_bytes: u64,
    /// Time that compiling may take. Default 30 s.
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
            diagnostics: 2_048,
            diagnostic_bytes: 4 << 10,
            component_bytes: 4 << 20,
            compile_memory_bytes: 512 << 20,
            compile_time: Duration::from_secs(30),
        }
    }
}

/// Memories and tables a component may define; each is small, their sizes are what is limited.
pub(crate) const MEMORIES: usize = 8;
pub(crate) const TABLES: usize = 32;

/// What a store asks before it allocates for a guest, and what it was refused.
///
/// Sizes are summed over all memories and all tables of the store, so that a component gains
/// nothing by having many.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: Account,
    table: Account,
    instances: usize,
    refused: Option<Refused>,
}

/// A ceiling that a guest ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) what: &'static str,
    pub(crate) granted: u64,
}

#[derive(Debug)]
struct Account {
    what: &'static str,
    used: usize,
    granted: usize,
}

/// Ends the guest where it asked for too much, instead of letting it go on with a failed growth.
#[derive(Debug, thiserror::Error)]
#[error("asked for more {what} than granted")]
struct GrowthRefused {
    what: &'static str,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: Account {
                what: "memory bytes",
                used: 0,
                granted: limits.memory_bytes,
            },
            table: Account {
                what: "table elements",
                used: 0,
                granted: limits.table_elements,
            },
            instances: limits.instances,
            refused: None,
        }
    }

    /// The first ceiling that the guest ran into.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// Linear memory that the guest has now.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.used
    }
}

impl Account {
    fn grow(&mut self, current: usize, desired: usize) -> Result<(), Refused> {
        let after = self.used.saturating_add(desired.saturating_sub(current));
        if after > self.granted {
            return Err(Refused {
                what: self.what,
                granted: self.granted as u64,
            });
        }
        self.used = after;
        Ok(())
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.memory.grow(current, desired);
        self.allow(grown)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.table.grow(current, desired);
        self.allow(grown)
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

impl Meter {
    fn allow(&mut self, grown: Result<(), Refused>) -> wasmtime::Result<bool> {
        match grown {
            Ok(()) => Ok(true),
            Err(refused) => {
                self.refused.get_or_insert(refused);
                Err(GrowthRefused { what: refused.what }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_memories_share_one_ceiling() {
        let mut meter = Meter::new(&Limits {
            memory_bytes: 100,
            ..Limits::default()
        });
        assert!(meter.memory_growing(0, 60, None).is_ok());
        assert!(meter.memory_growing(0, 60, None).is_err());
        assert_eq!(
            meter.refused(),
            Some(Refused {
                what: "memory bytes",
                granted: 100
            })
        );
        assert_eq!(meter.memory_bytes(), 60);
    }
}

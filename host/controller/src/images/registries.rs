//! The current registry client: the one from the command line, with the mirrors of the settings.

use llsd_registry::{Error, Mirror, Registry};
use parking_lot::Mutex;

/// Holds the registry client, which is replaced when the mirrors change.
pub struct Registries {
    base: Registry,
    current: Mutex<Current>,
}

struct Current {
    mirrors: Vec<Mirror>,
    registry: Registry,
    /// Counts the changes of the mirrors.
    generation: u64,
}

impl Registries {
    /// Starts with the client from the command line, without further mirrors.
    pub fn new(base: Registry) -> Self {
        Self {
            current: Mutex::new(Current {
                mirrors: Vec::new(),
                registry: base.clone(),
                generation: 0,
            }),
            base,
        }
    }

    /// The current client.
    pub(crate) fn current(&self) -> Registry {
        self.current.lock().registry.clone()
    }

    /// How often the mirrors changed.
    pub(super) fn generation(&self) -> u64 {
        self.current.lock().generation
    }

    /// Uses these mirrors from now on. A mirror from the command line wins over one with the same
    /// prefix. With unchanged mirrors the client and its caches stay.
    pub(crate) fn set_mirrors(&self, mirrors: &[Mirror]) -> Result<(), Error> {
        let mut current = self.current.lock();
        if current.mirrors == mirrors {
            return Ok(());
        }
        let registry = self.base.with_changed_settings(|settings| {
            for mirror in mirrors {
                settings.mirrors = settings.mirrors.with(mirror.clone());
            }
        })?;
        *current = Current {
            mirrors: mirrors.to_vec(),
            registry,
            generation: current.generation + 1,
        };
        Ok(())
    }
}

//! The registry client in use: that of the command line, with the mirrors of the ConfigMap.

use std::sync::{Mutex, MutexGuard, PoisonError};

use llsd_registry::{Error, Mirror, Registry};

/// Gives the client to whoever reads from registries next.
pub struct Registries {
    given: Registry,
    current: Mutex<Current>,
}

struct Current {
    mirrors: Vec<Mirror>,
    registry: Registry,
}

impl Registries {
    /// Starts with what the operator was given.
    pub fn new(given: Registry) -> Self {
        Self {
            current: Mutex::new(Current {
                mirrors: Vec::new(),
                registry: given.clone(),
            }),
            given,
        }
    }

    /// The client to use now.
    pub(crate) fn current(&self) -> Registry {
        self.lock().registry.clone()
    }

    /// Reads through these mirrors from now on. A prefix that the command line names stays its own.
    /// With the same mirrors as before the client stays, and what it remembers.
    pub(crate) fn redirect(&self, mirrors: &[Mirror]) -> Result<(), Error> {
        let mut current = self.lock();
        if current.mirrors == mirrors {
            return Ok(());
        }
        let registry = self.given.adapted(|settings| {
            for mirror in mirrors {
                settings.mirrors = settings.mirrors.with(mirror.clone());
            }
        })?;
        *current = Current {
            mirrors: mirrors.to_vec(),
            registry,
        };
        Ok(())
    }

    /// Both change together, or not at all.
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

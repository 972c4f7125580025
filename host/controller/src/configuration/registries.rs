//! The registry client in use: that of the command line, with the mirrors of the ConfigMap.

use std::sync::{Mutex, PoisonError};

use llsd_registry::{Error, Mirror, Registry};

/// Gives the client to whoever reads from registries next.
pub struct Registries {
    given: Registry,
    current: Mutex<Registry>,
}

impl Registries {
    /// Starts with what the operator was given.
    pub fn new(given: Registry) -> Self {
        Self {
            current: Mutex::new(given.clone()),
            given,
        }
    }

    /// The client to use now.
    pub(crate) fn current(&self) -> Registry {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads through these mirrors from now on. A prefix that the command line names stays its own.
    pub(crate) fn redirect(&self, mirrors: &[Mirror]) -> Result<(), Error> {
        let redirected = if mirrors.is_empty() {
            self.given.clone()
        } else {
            self.given.adapted(|settings| {
                for mirror in mirrors {
                    settings.mirrors = settings.mirrors.with(mirror.clone());
                }
            })?
        };
        let current = self.current.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = redirected;
        Ok(())
    }
}

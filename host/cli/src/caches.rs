//! Cache directories: compiled plugins and content from registries. Deleting them is safe.

use std::path::PathBuf;

use llsd_plugin::CompileCache;

/// The parent directory of all caches. Without one, or if it is not writable, nothing is cached.
pub(crate) struct Caches {
    pub(crate) folder: Option<PathBuf>,
}

impl Caches {
    /// Caches in `$XDG_CACHE_HOME/llsd` or `~/.cache/llsd`.
    pub(crate) fn of_user() -> Self {
        let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        Self {
            folder: xdg.or_else(home).map(|folder| folder.join("llsd")),
        }
    }

    /// The cache of compiled plugins.
    pub(crate) fn compiled(&self) -> Option<CompileCache> {
        CompileCache::open(&self.folder.as_ref()?.join("compiled")).ok()
    }
}

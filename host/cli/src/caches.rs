//! Folders for what can be had again, only slower: machine code of plugins, and what registries gave.

use std::path::PathBuf;

use llsd_plugin::CompileCache;

/// Where the caches are. A cache that cannot be used is none.
pub(crate) struct Caches {
    pub(crate) folder: Option<PathBuf>,
}

impl Caches {
    /// In the user's cache folder, when there is one.
    pub(crate) fn of_user() -> Self {
        let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        Self {
            folder: xdg.or_else(home).map(|folder| folder.join("llsd")),
        }
    }

    /// Machine code of plugins.
    pub(crate) fn compiled(&self) -> Option<CompileCache> {
        CompileCache::open(&self.folder.as_ref()?.join("compiled")).ok()
    }
}

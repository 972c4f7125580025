//! Folders for what can be had again, only slower: machine code of plugins, and what registries gave.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use llsd_plugin::CompileCache;

/// Where the caches are. A cache that cannot be used is none.
pub(crate) struct Caches {
    folder: Option<PathBuf>,
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

    /// In a folder that somebody asked for, and who is told when it cannot be used.
    pub(crate) fn in_folder(folder: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot hold the caches", folder.display()))?;
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// Machine code of plugins.
    pub(crate) fn compiled(&self) -> Option<CompileCache> {
        CompileCache::open(&self.folder.as_ref()?.join("compiled")).ok()
    }

    /// Manifests, blobs and files from registries.
    pub(crate) fn registry(&self) -> Option<Arc<Dir>> {
        let folder = self.folder.as_ref()?.join("registry");
        std::fs::create_dir_all(&folder).ok()?;
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
        Some(Arc::new(dir))
    }
}

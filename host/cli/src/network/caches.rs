//! Caches of the commands that use a registry or run for long.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::caches::Caches;

impl Caches {
    /// In a folder that the user named: it is an error when it cannot be used.
    pub(super) fn in_folder(folder: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("failed to create the cache folder {}", folder.display()))?;
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// Manifests, blobs and files from registries.
    pub(super) fn registry(&self) -> Option<Arc<Dir>> {
        let folder = self.folder.as_ref()?.join("registry");
        std::fs::create_dir_all(&folder).ok()?;
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
        Some(Arc::new(dir))
    }
}

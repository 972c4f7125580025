//! Caches of the network commands.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::caches::Caches;

impl Caches {
    /// Caches in a directory that the user named. Fails if it cannot be created.
    pub(super) fn in_folder(folder: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("failed to create the cache directory {}", folder.display())
        })?;
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// The cache of manifests, blobs and files from registries.
    pub(super) fn registry(&self) -> Option<Arc<Dir>> {
        let folder = self.folder.as_ref()?.join("registry");
        std::fs::create_dir_all(&folder).ok()?;
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
        Some(Arc::new(dir))
    }
}

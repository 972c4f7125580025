//! The folder of a control plane, which only its user can read.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

pub(crate) fn create_private_folder(folder: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("failed to create {}", folder.display()))
}

/// Whether data and logs are kept after a test, for inspection.
pub(crate) fn keeps_data() -> bool {
    std::env::var_os("LLSD_TESTBED_KEEP").is_some()
}

/// Removes a folder, unless data is kept.
pub(crate) fn discard_folder(folder: &Path) -> Result<()> {
    if keeps_data() {
        Ok(())
    } else {
        remove_folder(folder)
    }
}

/// Removes a folder, if it exists.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

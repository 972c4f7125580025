//! The control groups of a node: one folder in every hierarchy, with all pods of the node below it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

const MOUNT: &str = "/sys/fs/cgroup";

/// The kernel removes a killed process from its group a moment after it was killed.
const EMPTY_WITHIN: Duration = Duration::from_secs(20);

/// Creates the group in every hierarchy.
pub(super) fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(name);
        fs::create_dir_all(&group)
            .with_context(|| format!("failed to create the control group {}", group.display()))?;
    }
    Ok(())
}

/// Removes the group and those below it, once their processes have ended.
pub(super) fn remove(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(name);
        let deadline = Instant::now() + EMPTY_WITHIN;
        while let Err(error) = remove_tree(&group) {
            if error.kind() == ErrorKind::NotFound {
                break;
            }
            if Instant::now() > deadline {
                return Err(error).with_context(|| {
                    format!("failed to remove the control group {}", group.display())
                });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// The folders of the hierarchies: one for version 2, one for each controller for version 1.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let is_hierarchy = |folder: &Path| folder.join("cgroup.procs").is_file();
    let mount = Path::new(MOUNT);
    if is_hierarchy(mount) {
        return Ok(vec![mount.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(mount).with_context(|| format!("failed to list {MOUNT}"))? {
        let entry = entry?;
        // Links such as `cpu,cpuacct` lead to hierarchies that are listed anyway.
        if entry.file_type()?.is_dir() && is_hierarchy(&entry.path()) {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        bail!("no control groups are mounted at {MOUNT}");
    }
    Ok(found)
}

/// Removes the folders only: the files of a group are not real files.
fn remove_tree(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

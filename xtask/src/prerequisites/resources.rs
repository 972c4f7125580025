//! Checks free disk space and free memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Missing, Needs};
use crate::shell;

const GIB: u64 = 1 << 30;
/// Space that a run needs after the first.
const LATER_RUN_GIB: u64 = 1;

/// Returns what is missing, if anything is.
pub(super) fn check(needs: &Needs) -> anyhow::Result<Vec<Missing>> {
    let target = shell::target();
    let cache = shell::cache()?;
    let spaces = [
        Space {
            gib: needed(needs.target_gib, &target.join("debug/llsd")),
            folder: target,
            variable: "CARGO_TARGET_DIR",
        },
        Space {
            gib: needed(needs.cache_gib, &cache.join("oracle/venvs")),
            folder: cache,
            variable: "LLSD_CACHE",
        },
    ];
    let mut missing = disk(&spaces)?;
    missing.extend(memory(needs.memory_gib, available_memory()));
    Ok(missing)
}

/// Checks the disks. The needs of directories on the same disk are added.
fn disk(spaces: &[Space]) -> anyhow::Result<Vec<Missing>> {
    let mut missing = Vec::new();
    let mut needed_by_device = BTreeMap::<u64, u64>::new();
    for Space {
        folder,
        variable,
        gib,
    } in spaces.iter().filter(|space| space.gib > 0)
    {
        let (device, free) = device_and_free(nearest_existing(folder))?;
        let needed = needed_by_device.entry(device).or_default();
        *needed += gib;
        if free < needed.saturating_mul(GIB) {
            missing.push(Missing::new(
                format!(
                    "not enough disk space for {}: {needed} GiB needed, {:.1} GiB free",
                    folder.display(),
                    free as f64 / GIB as f64
                ),
                format!("free some space, or set {variable} to a folder on a larger disk"),
            ));
        }
    }
    Ok(missing)
}

/// A directory that a task writes to, and the space that it needs.
struct Space {
    folder: PathBuf,
    variable: &'static str,
    gib: u64,
}

/// The space that a run needs: less if `output`, which the first run creates, exists.
fn needed(gib: u64, output: &Path) -> u64 {
    if output.exists() {
        gib.min(LATER_RUN_GIB)
    } else {
        gib
    }
}

fn nearest_existing(folder: &Path) -> &Path {
    folder
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("."))
}

fn device_and_free(folder: &Path) -> anyhow::Result<(u64, u64)> {
    let problem = || format!("failed to read the free space of {}", folder.display());
    let stat = rustix::fs::stat(folder).with_context(problem)?;
    let space = rustix::fs::statvfs(folder).with_context(problem)?;
    Ok((stat.st_dev, space.f_bavail * space.f_frsize))
}

fn memory(needed_gib: u64, available_bytes: Option<u64>) -> Option<Missing> {
    let available = available_bytes?;
    (available < needed_gib * GIB).then(|| {
        Missing::new(
            format!(
                "not enough free memory: {needed_gib} GiB needed, {:.1} GiB available",
                available as f64 / GIB as f64
            ),
            "end other programs, or use a machine with more memory",
        )
    })
}

/// The memory that is available without swapping. `None` if the system is not Linux.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_reported_in_gib() {
        let missing = memory(4, Some(GIB)).unwrap();
        assert_eq!(
            missing.what,
            "not enough free memory: 4 GiB needed, 1.0 GiB available"
        );
        assert_eq!(memory(4, Some(4 * GIB)), None);
        assert_eq!(memory(4, None), None);
    }

    #[test]
    fn a_disk_that_is_too_small_is_reported_with_the_variable_that_moves_the_folder() {
        let space = |folder: &str, variable, gib| Space {
            folder: std::env::temp_dir().join(folder),
            variable,
            gib,
        };
        let spaces = [
            space("not-there-yet/target", "CARGO_TARGET_DIR", 0),
            space("not-there-yet/cache", "LLSD_CACHE", 1 << 30),
        ];
        let missing = disk(&spaces).unwrap();
        assert_eq!(missing.len(), 1);
        assert!(missing[0].what.contains("1073741824 GiB needed"));
        assert!(missing[0].fix.contains("set LLSD_CACHE"));
    }
}

//! The memory limit of the operator's process and its children, as the kubelet sets it for a pod.
//!
//! A control group of version 1 or 2, where this process may create one. `RLIMIT_AS` is no substitute:
//! the sandbox reserves address space that it never uses. Without a control group the limit is only
//! compared with the peak of the process.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// The limit in `deploy/kustomize/operator/deployment.yaml`.
pub(crate) const SHIPPED_BYTES: u64 = 512 << 20;

/// A memory limit, removed when dropped.
pub struct MemoryLimit {
    group: Option<Group>,
}

struct Group {
    folder: PathBuf,
    is_v2: bool,
}

impl MemoryLimit {
    /// Creates a control group with the shipped limit, if this process may.
    pub fn create() -> Self {
        let name = format!("llsd-hostile-{}", std::process::id());
        let v1 = Group {
            folder: Path::new("/sys/fs/cgroup/memory").join(&name),
            is_v2: false,
        };
        let v2 = Group {
            folder: Path::new("/sys/fs/cgroup").join(&name),
            is_v2: true,
        };
        let group = [v1, v2].into_iter().find(|group| group.create().is_ok());
        Self { group }
    }

    /// How the limit is enforced, for the report.
    pub fn describe(&self) -> &'static str {
        match &self.group {
            Some(Group { is_v2: false, .. }) => "enforced by a control group (v1)",
            Some(Group { is_v2: true, .. }) => "enforced by a control group (v2)",
            None => "NOT enforced: no control group could be created; only the peak is compared",
        }
    }

    /// The file to which a process writes its id to be limited.
    pub fn processes(&self) -> Option<PathBuf> {
        Some(self.group.as_ref()?.folder.join("cgroup.procs"))
    }

    /// Fails if the kernel killed a process because of the limit.
    pub fn check(&self) -> Result<()> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let events = match group.is_v2 {
            true => fs::read_to_string(group.folder.join("memory.events"))?,
            false => fs::read_to_string(group.folder.join("memory.oom_control"))?,
        };
        let killed = events
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|count| count.trim() != "0");
        ensure!(!killed, "the kernel killed a process at the memory limit");
        Ok(())
    }
}

impl Group {
    fn create(&self) -> std::io::Result<()> {
        let Self { folder, is_v2 } = self;
        // Otherwise the folder would be an ordinary one.
        let root = folder.parent().unwrap_or(folder);
        let marker = match is_v2 {
            true => root.join("cgroup.controllers"),
            false => root.join("memory.limit_in_bytes"),
        };
        fs::metadata(marker)?;
        fs::create_dir(folder)?;
        let file = match is_v2 {
            true => "memory.max",
            false => "memory.limit_in_bytes",
        };
        fs::write(folder.join(file), SHIPPED_BYTES.to_string()).inspect_err(|_| {
            let _ = fs::remove_dir(folder);
        })
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Some(Group { folder, .. }) = &self.group {
            // The operator has been killed and reaped. Its children may take a moment to exit.
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

//! The state file of a control plane.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::ETCD;
use super::folder::discard_folder;
use crate::process::ProcessHandle;

const STATE_FILE: &str = "state.json";

/// What a process needs to connect to a control plane that another one started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// The folder with certificates, kubeconfig files and logs.
    pub folder: PathBuf,
    /// The address of the API server.
    pub server: String,
    /// The Kubernetes version, such as `v1.36.3`.
    pub version: String,
    /// Whether the controllers, the scheduler and a simulated node are running.
    pub has_controllers: bool,
    /// The path of `kubectl`.
    pub kubectl: PathBuf,
    /// The processes, in the order of their start.
    pub(crate) processes: Vec<ProcessHandle>,
}

impl State {
    /// Reads a state file.
    pub fn load(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| {
            format!(
                "failed to read the state of a control plane from {}",
                file.display()
            )
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a valid state file", file.display()))
    }

    /// Writes the state file. Another process may be waiting for it, so it appears complete.
    pub(crate) fn save(&self) -> Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(&self.folder)?;
        serde_json::to_writer_pretty(&mut temporary, self)?;
        temporary.persist(Self::file(&self.folder))?;
        Ok(())
    }

    /// The path of the state file in the folder of a control plane.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(STATE_FILE)
    }

    /// The id of a process, such as `kube-apiserver`.
    pub fn process_id(&self, name: &str) -> Option<u32> {
        let process = self.processes.iter().find(|one| one.name == name)?;
        Some(process.pid)
    }

    /// Suspends etcd until the returned value is dropped. Writes to the API server wait meanwhile.
    pub fn suspend_etcd(&self) -> Result<SuspendedProcess> {
        let etcd = self.processes.iter().find(|one| one.name == ETCD);
        let etcd = etcd.context("this control plane has no etcd process")?;
        etcd.suspend()?;
        Ok(SuspendedProcess(etcd.clone()))
    }

    /// Kills every process, the API server before etcd, and removes the folder.
    pub fn stop(&self) -> Result<()> {
        for process in self.processes.iter().rev() {
            process.kill()?;
        }
        discard_folder(&self.folder)
    }
}

/// A suspended process, which resumes when this is dropped.
#[derive(Debug)]
pub struct SuspendedProcess(ProcessHandle);

impl Drop for SuspendedProcess {
    fn drop(&mut self) {
        // An error means that the process has exited.
        let _ = self.0.resume();
    }
}

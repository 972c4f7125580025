//! Starts a node in namespaces of its own, and removes everything when it ends.
//!
//! The supervisor is a process of its own. It starts `unshare` with new network, mount and process
//! namespaces. When the first process in them ends, the kernel kills all others, unmounts what they
//! mounted, and removes links, routes and rules. Control groups and the folder are left, which the
//! supervisor removes. If it is killed itself, the kernel kills the node, and the next node of this user
//! removes the rest: see [`sweep`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::network::{self, Network};
use super::{cgroups, command};
use crate::control_plane::{create_private_folder, discard_folder, remove_folder};
use crate::toolchain;
use crate::wait::until;

const RECORD: &str = "node.json";
const LOCK: &str = "lock";
/// The output of the node's first program, which says why a node did not start.
const LOG: &str = "node.log";

/// What another process needs to enter or stop a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The supervisor. Its id is valid while the folder's lock is held.
    pub(super) supervisor: u32,
    /// A process whose network and mount namespaces are those of the node, and whose children are in
    /// the node's process namespace.
    pub(super) namespaces: u32,
    pub(super) network: Network,
    pub(super) cgroup: String,
}

impl Record {
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let file = folder.join(RECORD);
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "failed to read the record of a node from {}",
                file.display()
            )
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a valid record of a node", file.display()))
    }

    fn save(&self, folder: &Path) -> Result<()> {
        // Write and rename, because another process may be reading the file.
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut temporary, self)?;
        temporary.persist(folder.join(RECORD))?;
        Ok(())
    }
}

/// The folder with the folders of all nodes of this user.
pub(super) fn nodes_folder() -> Result<PathBuf> {
    Ok(toolchain::cache_dir()?.join("testbed/nodes"))
}

/// Runs a node in `folder` until it is told to stop.
///
/// That is SIGTERM; without `is_detached`, also the end of standard input, which the kernel closes
/// however the process ends that started the supervisor.
pub async fn supervise(folder: &Path, is_detached: bool) -> Result<()> {
    // Before anything is created, so that no signal leaves something behind.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    create_private_folder(folder)?;
    let folder = fs::canonicalize(folder)?;
    let lock = {
        let _all = lock_all_nodes()?;
        let lock = File::create(folder.join(LOCK))?;
        lock.try_lock()
            .with_context(|| format!("a node is already running in {}", folder.display()))?;
        lock
    };

    let id = id_of(&folder);
    let cgroup = format!("llsd-{id}");
    cgroups::create(&cgroup)?;
    let run = async {
        let mut node = start(&folder, &cgroup, &id, is_detached).await?;
        let status = node.wait().await?;
        ensure!(
            status.success(),
            "the node ended with {status}; the end of its log:\n{}",
            fs::read_to_string(folder.join(LOG)).unwrap_or_default()
        );
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = run => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    // Dropping `run` killed `unshare`, and the kernel the rest. Groups are empty soon after.
    cgroups::remove(&cgroup)?;
    discard_folder(&folder)?;
    drop(lock);
    outcome
}

/// Waits until no other process creates or removes a node. Without it [`sweep`] could take the lock of a
/// node that is being created.
fn lock_all_nodes() -> Result<File> {
    let lock = File::create(nodes_folder()?.join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Removes what supervisors that were killed left behind.
pub(super) fn sweep() -> Result<()> {
    let nodes = nodes_folder()?;
    fs::create_dir_all(&nodes)?;
    let _all = lock_all_nodes()?;
    for folder in fs::read_dir(nodes)? {
        let folder = folder?.path();
        // The lock of a running supervisor cannot be taken, and a folder without one is not a node.
        let Ok(lock) = File::open(folder.join(LOCK)) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            cgroups::remove(&format!("llsd-{}", id_of(&folder)))?;
            remove_folder(&folder)?;
        }
    }
    Ok(())
}

/// Whether a supervisor runs a node in `folder`.
pub(super) fn is_running(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|lock| lock.try_lock().is_err())
}

/// The name of a node, from its folder. Two folders have different names with near certainty, and it is
/// short enough for the name of a link.
fn id_of(folder: &Path) -> String {
    toolchain::short_hash(folder.as_os_str().as_encoded_bytes())
}

/// Starts the node's first process and connects it to this machine.
async fn start(folder: &Path, cgroup: &str, id: &str, is_detached: bool) -> Result<Child> {
    let child = spawn(folder, is_detached)?;
    let pid = child.id().context("the node ended at once")?;
    until("the namespaces exist", Duration::from_secs(120), || {
        std::future::ready(is_in_other_network(pid))
    })
    .await?;
    // Two nodes that start at the same time must not choose the same network.
    let _all = lock_all_nodes()?;
    let network = Network::choose(id, Network::is_routed)?;
    Record {
        supervisor: std::process::id(),
        namespaces: pid,
        network,
        cgroup: cgroup.to_owned(),
    }
    .save(folder)?;
    network::connect(&format!("llsd-{id}"), network, pid)?;
    Ok(child)
}

/// Runs this program's `node init` in new namespaces.
fn spawn(folder: &Path, is_detached: bool) -> Result<Child> {
    let program = std::env::current_exe()?;
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join(LOG))?;
    let mut child = Command::new("setpriv");
    // Kill `unshare` when this process dies, and the first process of the node when `unshare` dies.
    child.args(["--pdeathsig", "KILL", "unshare", "--kill-child"]);
    child.args(["--net", "--mount", "--pid", "--fork", "--mount-proc"]);
    child.args(["--propagation", "private"]);
    // The shell is process 1: it collects the exit status of processes that lost their parents.
    child.args(["sh", "-c", "\"$0\" \"$@\"; exit $?"]);
    child.arg(program).args(["node", "init", "--folder"]);
    child.arg(folder).args(is_detached.then_some("--detached"));
    child
        .stdin(if is_detached {
            Stdio::null()
        } else {
            Stdio::inherit()
        })
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("failed to run setpriv and unshare")
}

fn is_in_other_network(pid: u32) -> Result<()> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
    let other = network(&pid.to_string()).context("the node ended at once")?;
    ensure!(other != network("self")?, "unshare has not run yet");
    Ok(())
}

/// Stops the node in `folder`, if it runs, and waits until everything is removed.
pub(super) async fn stop(folder: &Path) -> Result<()> {
    if is_running(folder) {
        let supervisor = Record::load(folder)?.supervisor.to_string();
        command::run("kill", &["-TERM", &supervisor])?;
        let deadline = Duration::from_secs(240);
        until("the node stops", deadline, || async {
            if is_running(folder) {
                bail!("{} is in use", folder.display());
            }
            Ok(())
        })
        .await?;
    }
    sweep()
}

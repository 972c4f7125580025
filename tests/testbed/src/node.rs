//! A cluster with a real node: a kubelet, containerd and runc, on which pods really run.
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! let node = llsd_testbed::Node::shared().await?;
//! let namespace = node.testbed().namespace("pods").await?;
//! # Ok(()) }
//! ```
//!
//! The control plane and the node run in network, mount and process namespaces of their own, so nothing
//! of this machine changes except for one link, its routes and one control group. All are removed when
//! the node is dropped, also when the process that started it is killed: see [`supervisor`]. Pods
//! cannot reach anything outside of the node. This machine reaches pods and Services by their addresses.
//!
//! Needs root, and the packages of [`prerequisites`].

mod cgroups;
mod command;
mod config;
mod dns;
mod images;
mod init;
mod libraries;
mod network;
mod prerequisites;
mod server_image;
mod supervisor;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::OnceCell;

use crate::control_plane::State;
use crate::invocation::Invocation;
use crate::testbed::Testbed;
use crate::toolchain::{self, Release, Tool};

pub use images::OPERATOR_IMAGE;
pub use init::init;
pub use prerequisites::unavailable;
pub use server_image::ServerPackages;
use supervisor::Record;
pub use supervisor::supervise;
pub use workloads::{STARTER_IMAGE, STARTER_RELEASE};

/// A cold start of a busy machine with two cores took a minute. The rest is a margin.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// The variable with the folder of a running node.
const VARIABLE: &str = "LLSD_NODE";

/// A running node with its control plane.
#[derive(Debug)]
pub struct Node {
    testbed: Testbed,
    record: Record,
    /// The supervisor, if this process started it. It ends when its standard input is closed.
    supervisor: Option<Child>,
}

impl Node {
    /// The shared node: the one that `LLSD_NODE` names, or one that is started now and stops with this
    /// process.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Node> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| async {
                match std::env::var_os(VARIABLE) {
                    Some(folder) if !folder.is_empty() => Self::connect(Path::new(&folder)),
                    _ => Self::start().await,
                }
            })
            .await
    }

    /// Starts a node for the caller alone. It stops when dropped.
    pub async fn start() -> Result<Self> {
        let nodes = supervisor::nodes_folder()?;
        fs::create_dir_all(&nodes)?;
        let folder = tempfile::Builder::new()
            .prefix("test-")
            .disable_cleanup(true)
            .tempdir_in(&nodes)?;
        Self::start_in(folder.path(), false).await
    }

    /// Starts a node in `folder` that outlives this process, until [`Node::stop`].
    pub async fn start_detached(folder: &Path) -> Result<Self> {
        let mut node = Self::start_in(folder, true).await?;
        node.supervisor = None;
        Ok(node)
    }

    /// Connects to the node in `folder`.
    pub fn connect(folder: &Path) -> Result<Self> {
        Ok(Self {
            testbed: Testbed::connect(&State::file(folder))?,
            record: Record::load(folder)?,
            supervisor: None,
        })
    }

    /// The folder of the node that `cargo xtask node up` starts: one for each checkout.
    pub fn detached_folder() -> Result<PathBuf> {
        let checkout = env!("CARGO_MANIFEST_DIR").as_bytes();
        let name = format!("checkout-{}", toolchain::short_hash(checkout));
        Ok(supervisor::nodes_folder()?.join(name))
    }

    /// Whether a complete node runs in `folder`.
    pub fn is_running(folder: &Path) -> bool {
        supervisor::is_running(folder) && State::file(folder).is_file()
    }

    /// Stops the node in `folder`, and removes what killed nodes left behind.
    pub async fn stop(folder: &Path) -> Result<()> {
        supervisor::stop(folder).await
    }

    /// Its control plane, for clients, kubectl and namespaces.
    pub fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// The name of its link and its control group, unlike those of other nodes of this machine.
    pub fn name(&self) -> &str {
        &self.record.cgroup
    }

    /// The address of its registry, which serves plain HTTP to pods, to the node and to this machine.
    pub fn registry(&self) -> String {
        format!("{}:{}", self.record.network.node(), config::REGISTRY_PORT)
    }

    /// Makes the node pull from its own registry what pods name with the registry `host`.
    pub fn mirror(&self, host: &str) -> Result<()> {
        let folder = &self.testbed.state().folder;
        config::pull_from_node(folder, self.record.network, host)
    }

    /// A command that runs inside the node's namespaces, such as `ctr`.
    pub fn command(&self, program: &str) -> Invocation {
        Invocation::new(Path::new("nsenter")).args(self.enter(program))
    }

    /// `ctr` for the containers and images of the node.
    pub fn ctr(&self) -> Invocation {
        let address = ["--address", config::CONTAINERD_SOCKET];
        self.command("ctr")
            .args(address)
            .args(["--namespace", "k8s.io"])
    }

    /// Imports the images of an OCI layout.
    pub async fn import(&self, layout: &Path) -> Result<()> {
        let mut ctr = Command::new("nsenter");
        ctr.args(self.enter("ctr"));
        let layout = layout.to_owned();
        tokio::task::spawn_blocking(move || images::import(ctr, &layout)).await?
    }

    fn enter(&self, program: &str) -> Vec<String> {
        let namespaces = format!("/proc/{}/ns", self.record.namespaces);
        let mut arguments: Vec<String> = [
            ("net", "net"),
            ("mount", "mnt"),
            ("pid", "pid_for_children"),
        ]
        .map(|(option, file)| format!("--{option}={namespaces}/{file}"))
        .into();
        arguments.push(program.to_owned());
        arguments
    }

    async fn start_in(folder: &Path, is_detached: bool) -> Result<Self> {
        if let Some(reason) = unavailable() {
            bail!(reason);
        }
        let cache = toolchain::cache_dir()?;
        // A build takes minutes and must not block the runtime.
        let built = tokio::task::spawn_blocking(move || {
            let mut tools = Tool::of_control_plane(Release::Newest).to_vec();
            tools.extend(Tool::OF_NODE);
            toolchain::ensure_built(&cache, &tools)
        });
        built.await??;
        supervisor::sweep()?;
        let mut supervisor = spawn_supervisor(folder, is_detached)?;
        until_complete(folder, &mut supervisor).await?;
        let mut node = Self::connect(folder)?;
        node.supervisor = Some(supervisor);
        Ok(node)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            // It removes everything before it ends. A failure is in its output.
            let _ = supervisor.wait();
        }
    }
}

fn spawn_supervisor(folder: &Path, is_detached: bool) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    Command::new(testbed_program()?)
        .args(["node", "supervise", "--folder"])
        .arg(folder)
        .args(is_detached.then_some("--detached"))
        .current_dir("/")
        .stdin(if is_detached {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::null())
        // A supervisor that outlives this process must not hold its output open.
        .stderr(if is_detached {
            Stdio::from(fs::File::create(detached_log(folder))?)
        } else {
            Stdio::inherit()
        })
        // Ctrl-C in a terminal must not reach it: it stops when this process ends.
        .process_group(0)
        .spawn()
        .context("failed to start the node")
}

/// The output of a detached supervisor, beside the folder that it removes.
fn detached_log(folder: &Path) -> PathBuf {
    folder.with_extension("log")
}

/// Waits until the state file exists, which is written last.
async fn until_complete(folder: &Path, supervisor: &mut Child) -> Result<()> {
    let deadline = Instant::now() + START_DEADLINE;
    while !State::file(folder).is_file() {
        if let Some(status) = supervisor.try_wait()? {
            let log = fs::read_to_string(detached_log(folder)).unwrap_or_default();
            bail!("the node did not start ({status}); see its messages:\n{log}");
        }
        if Instant::now() > deadline {
            drop(supervisor.stdin.take());
            bail!("the node was not ready after {START_DEADLINE:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The program of this package: this process, or the one that cargo built beside this test.
fn testbed_program() -> Result<PathBuf> {
    let current = std::env::current_exe()?;
    let mut folders = current.ancestors().skip(1).take(2);
    let found = folders.find_map(|folder| {
        let program = folder.join("testbed");
        program.is_file().then_some(program)
    });
    found.with_context(|| {
        format!(
            "the program `testbed` was not found near {}; build it with `cargo build --workspace --bin testbed`",
            current.display()
        )
    })
}

//! Starts and stops the programs of a Kubernetes control plane.
//!
//! In: a release and an empty folder. Out: a running API server with a real authority, RBAC and an
//! audit log, and a [`State`] file by which another process finds it. Settings that differ from a
//! cluster's have their reason beside them.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::Api;
use kube::{Client, Config};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};

use crate::certificates::Authority;
use crate::components;
use crate::process::{Daemon, Running, Watchdog};
use crate::toolchain::{self, Release, Tool};
use crate::users;
use crate::wait::eventually;

const STATE_FILE: &str = "state.json";

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";

/// A loaded two-core machine takes eight seconds; the rest is for worse ones.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// How to reach a control plane that another process started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// The folder with certificates, kubeconfig files and logs.
    pub folder: PathBuf,
    /// The address of the API server.
    pub server: String,
    /// The Kubernetes version, such as `v1.36.3`.
    pub version: String,
    /// Whether controllers, scheduler and a simulated node run.
    pub has_controllers: bool,
    /// Where `kubectl` is.
    pub kubectl: PathBuf,
    /// What runs, in the order in which it was started.
    running: Vec<Running>,
}

impl State {
    /// Reads a state file.
    pub fn load(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("no control plane has its state in {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
    }

    /// Where the state of the control plane in a folder is.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(STATE_FILE)
    }

    /// Holds etcd still until the answer is dropped: whoever writes has to wait.
    pub fn hold_etcd(&self) -> Result<Held> {
        let etcd = self.running.iter().find(|one| one.name == ETCD);
        let etcd = etcd.context("this control plane runs without etcd")?;
        etcd.suspend()?;
        Ok(Held(etcd.clone()))
    }

    /// Ends every program, the API server before etcd, and removes the folder.
    pub fn stop(&self) -> Result<()> {
        for program in self.running.iter().rev() {
            program.kill()?;
        }
        discard_folder(&self.folder)
    }
}

/// A program that stands still until this is dropped.
#[derive(Debug)]
pub struct Held(Running);

impl Drop for Held {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.resume();
    }
}

/// A control plane that ends when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    state: State,
    /// In the order in which they were started.
    daemons: Vec<Daemon>,
    watchdog: Option<Watchdog>,
}

impl ControlPlane {
    /// Starts a control plane in `folder`, which is made. Builds what is missing first.
    pub async fn start(release: Release, folder: &Path) -> Result<Self> {
        let cache = toolchain::cache_dir()?;
        // Building takes minutes and must not stop the runtime of whoever waits for it.
        let built = tokio::task::spawn_blocking(move || {
            toolchain::ensure_built(&cache, Tool::of_control_plane(release))
        });
        let binaries = built.await??;

        // A port found free can be taken before it is used, so there is a second try.
        match Self::start_once(release, &binaries, folder).await {
            Err(error) if format!("{error:#}").contains("address already in use") => {
                Self::start_once(release, &binaries, folder).await
            }
            outcome => outcome,
        }
    }

    /// What another process needs to connect.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Lets the programs outlive this process; [`State::stop`] ends them.
    pub fn release(mut self) -> State {
        for daemon in self.daemons.drain(..) {
            daemon.release();
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
        self.state.clone()
    }

    /// Ends the API server without warning, starts it again, and waits until it is ready.
    pub async fn restart_api_server(&mut self) -> Result<()> {
        let is_api_server = |running: &Running| running.name == API_SERVER;
        let all = self.daemons.iter_mut().zip(&mut self.state.running);
        let found = all.into_iter().find(|(_, running)| is_api_server(running));
        let (daemon, running) = found.context("this control plane runs without an API server")?;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.forget(daemon)?;
        }
        daemon.restart()?;
        *running = daemon.running().clone();
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(daemon)?;
        }
        self.until_ready().await.map(drop)
    }

    async fn start_once(release: Release, binaries: &[PathBuf], folder: &Path) -> Result<Self> {
        remove_folder(folder)?;
        create_private_folder(folder)?;
        let folder = fs::canonicalize(folder)?;
        let binary = |tool: Tool| {
            let wanted = Tool::of_control_plane(release)
                .iter()
                .position(|t| *t == tool);
            wanted
                .and_then(|i| binaries.get(i))
                .with_context(|| format!("{tool} is missing"))
        };
        let ports = free_ports(3)?;
        let [api_port, etcd_port, peer_port] = [ports[0], ports[1], ports[2]];
        let server = format!("https://127.0.0.1:{api_port}");

        write_certificates(&folder)?;
        users::create_built_in(&folder, &server)?;
        fs::write(
            folder.join("audit-policy.json"),
            components::audit_policy().to_string(),
        )?;

        let mut plane = Self {
            state: State {
                server,
                version: version_of(release, binary(Tool::KubeApiserver(release))?)?,
                has_controllers: release == Release::Newest,
                kubectl: binary(Tool::Kubectl)?.clone(),
                running: Vec::new(),
                folder: folder.clone(),
            },
            daemons: Vec::new(),
            watchdog: Some(Watchdog::start(
                (!keeps_data()).then_some(folder.as_path()),
            )?),
        };

        plane.run(
            binary(Tool::Etcd)?,
            ETCD,
            &components::etcd_arguments(etcd_port, peer_port),
        )?;
        let api_server = binary(Tool::KubeApiserver(release))?;
        plane.run(
            api_server,
            API_SERVER,
            &components::api_server_arguments(api_port, etcd_port),
        )?;
        let admin = plane.until_ready().await?;

        if release == Release::Newest {
            let manager = binary(Tool::KubeControllerManager)?;
            plane.run(
                manager,
                users::CONTROLLER_MANAGER,
                &components::controller_manager_arguments(),
            )?;
            plane.run(
                binary(Tool::KubeScheduler)?,
                users::SCHEDULER,
                &components::scheduler_arguments(),
            )?;
            components::create_node(&admin).await?;
            plane.run(
                binary(Tool::Kwok)?,
                users::KWOK,
                &components::kwok_arguments(),
            )?;
            plane.until_controllers_work(&admin).await?;
        }

        fs::write(
            State::file(&folder),
            serde_json::to_string_pretty(&plane.state)?,
        )?;
        Ok(plane)
    }

    fn run(&mut self, program: &Path, name: &str, arguments: &[String]) -> Result<()> {
        let daemon = Daemon::start(name, program, arguments, &self.state.folder)?;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(&daemon)?;
        }
        self.state.running.push(daemon.running().clone());
        self.daemons.push(daemon);
        Ok(())
    }

    /// A client for the administrator, once the API server says that it is ready.
    async fn until_ready(&mut self) -> Result<Client> {
        let client = client(&users::kubeconfig(&self.state.folder, "admin")?).await?;
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let request = axum::http::Request::get("/readyz").body(Vec::new())?;
            let Err(error) = client.request_text(request).await else {
                return Ok(client);
            };
            for daemon in &mut self.daemons {
                daemon.check_alive()?;
            }
            ensure!(
                Instant::now() < deadline,
                "the API server was not ready after {START_DEADLINE:?}: {error}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The node is ready when kwok works; the account exists when the controller manager does.
    async fn until_controllers_work(&mut self, admin: &Client) -> Result<()> {
        let nodes = Api::<Node>::all(admin.clone());
        let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "default");
        let works = async {
            eventually(&nodes, components::NODE, START_DEADLINE, "ready", |node| {
                node.is_some_and(components::is_ready)
            })
            .await?;
            eventually(&accounts, "default", START_DEADLINE, "made", |a| {
                a.is_some()
            })
            .await
        };
        let outcome = works.await;
        for daemon in &mut self.daemons {
            daemon.check_alive()?;
        }
        outcome.map(drop)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // The API server before etcd: last started, first ended.
        while let Some(daemon) = self.daemons.pop() {
            drop(daemon);
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
            // What cannot be removed now is in a folder for temporary files.
            let _ = discard_folder(&self.state.folder);
        }
    }
}

/// A client with the identity that a kubeconfig file gives.
///
/// It belongs to the runtime it was made in, so it is never shared between tests.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let read = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &Default::default()).await?;
    Ok(Client::try_from(config)?)
}

fn write_certificates(folder: &Path) -> Result<()> {
    let authority = Authority::generate()?;
    authority.save(folder)?;
    // 10.0.0.1 is the address of the service `kubernetes`.
    let names = [
        "127.0.0.1",
        "localhost",
        "10.0.0.1",
        "kubernetes.default.svc",
    ];
    let server = authority.server(&names)?;
    fs::write(folder.join("server.crt"), server.certificate)?;
    fs::write(folder.join("server.key"), server.key)?;
    let accounts = KeyPair::generate()?;
    fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(folder.join("accounts.pub"), accounts.public_key_pem())?;
    Ok(())
}

/// The version of the binary, which is not ours when it comes from `KUBEBUILDER_ASSETS`.
fn version_of(release: Release, api_server: &Path) -> Result<String> {
    let output = std::process::Command::new(api_server)
        .arg("--version")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().strip_prefix("Kubernetes ") {
        Some(version) => Ok(version.to_owned()),
        None => toolchain::version(Tool::KubeApiserver(release)),
    }
}

fn free_ports(count: usize) -> Result<Vec<u16>> {
    // Held together, so that they differ.
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<_>>()?;
    let ports: BTreeSet<u16> = listeners
        .iter()
        .map(|l| Ok(l.local_addr()?.port()))
        .collect::<Result<_>>()?;
    Ok(ports.into_iter().collect())
}

fn create_private_folder(folder: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make {}", folder.display()))
}

/// Whether what a test leaves behind is to be looked at afterwards.
pub(crate) fn keeps_data() -> bool {
    std::env::var_os("LLSD_TESTBED_KEEP").is_some()
}

fn discard_folder(folder: &Path) -> Result<()> {
    if keeps_data() {
        Ok(())
    } else {
        remove_folder(folder)
    }
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

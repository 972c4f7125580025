//! Starts and stops the processes of a Kubernetes control plane.
//!
//! In: a release and an empty folder. Out: a running API server with its own certificate authority,
//! RBAC and an audit log, and a [`State`] file with which another process can connect.

mod folder;
mod state;

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

use crate::certificates::CertificateAuthority;
use crate::components::{self, ApiServer};
use crate::process::{Daemon, Watchdog};
use crate::toolchain::{self, Release, Tool};
use crate::users;
use crate::wait::eventually;

pub(crate) use folder::keeps_data;
pub(crate) use folder::{create_private_folder, discard_folder, remove_folder};
pub use state::{State, SuspendedProcess};

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";

/// A busy machine with two cores needs eight seconds. The rest is a margin for slower ones.
const START_DEADLINE: Duration = Duration::from_secs(480);

/// Whether the controllers of a control plane run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Deployments create pods, and namespaces are deleted.
    Run,
    /// Only the API server runs.
    Off,
}

/// A control plane that stops when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    state: State,
    /// In the order of their start.
    daemons: Vec<Daemon>,
    watchdog: Option<Watchdog>,
}

impl ControlPlane {
    /// Builds missing binaries, creates `folder` and starts a control plane in it. Its controllers run if the
    /// release has them and `controllers` says so.
    pub async fn start(release: Release, controllers: Controllers, folder: &Path) -> Result<Self> {
        let cache = toolchain::cache_dir()?;
        // A build takes minutes and must not block the runtime.
        let built = tokio::task::spawn_blocking(move || {
            toolchain::ensure_built(&cache, Tool::of_control_plane(release))
        });
        let binaries = built.await??;

        // Another process can take a free port before it is used, so try twice.
        match Self::start_once(release, controllers, &binaries, folder).await {
            Err(error) if format!("{error:#}").contains("address already in use") => {
                Self::start_once(release, controllers, &binaries, folder).await
            }
            outcome => outcome,
        }
    }

    /// The state that another process needs to connect.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Lets the processes outlive this one. [`State::stop`] stops them.
    pub fn release(mut self) -> State {
        for daemon in self.daemons.drain(..) {
            daemon.release();
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
        self.state.clone()
    }

    /// Kills the API server, starts it again and waits until it is ready.
    pub async fn restart_api_server(&mut self) -> Result<()> {
        let all = self.daemons.iter_mut().zip(&mut self.state.processes);
        let found = all
            .into_iter()
            .find(|(_, process)| process.name == API_SERVER);
        let (daemon, process) = found.context("this control plane has no API server process")?;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.unwatch(daemon)?;
        }
        daemon.restart()?;
        *process = daemon.handle().clone();
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(daemon)?;
        }
        self.until_ready().await.map(drop)
    }

    async fn start_once(
        release: Release,
        controllers: Controllers,
        binaries: &[PathBuf],
        folder: &Path,
    ) -> Result<Self> {
        let has_controllers = release == Release::Newest && controllers == Controllers::Run;
        remove_folder(folder)?;
        create_private_folder(folder)?;
        let folder = fs::canonicalize(folder)?;
        let binary = |tool: Tool| {
            let wanted = Tool::of_control_plane(release)
                .iter()
                .position(|t| *t == tool);
            wanted
                .and_then(|i| binaries.get(i))
                .with_context(|| format!("{tool} is not part of this control plane"))
        };
        let ports = free_ports(3)?;
        let [api_port, etcd_port, peer_port] = [ports[0], ports[1], ports[2]];
        let server = format!("https://127.0.0.1:{api_port}");

        // 10.0.0.1 is the address of the `kubernetes` Service.
        write_certificates(&folder, &["127.0.0.1", "localhost", "10.0.0.1"])?;
        users::create_built_in(&folder, &server)?;
        fs::write(
            folder.join("audit-policy.json"),
            components::audit_policy().to_string(),
        )?;

        let mut plane = Self {
            state: State {
                server,
                version: version_of(binary(Tool::KubeApiserver)?)?,
                has_controllers,
                kubectl: binary(Tool::Kubectl)?.clone(),
                processes: Vec::new(),
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
        let api_server = binary(Tool::KubeApiserver)?;
        let settings = ApiServer {
            address: "127.0.0.1",
            port: api_port,
            etcd_port,
            services: "10.0.0.0/16",
        };
        let mut arguments = settings.arguments();
        arguments.extend(components::simulated_node_arguments());
        if let Some(version) = release.emulated() {
            arguments.push(format!("--emulated-version={version}"));
        }
        plane.run(api_server, API_SERVER, &arguments)?;
        let admin = plane.until_ready().await?;

        if has_controllers {
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
                &components::kwok_arguments()?,
            )?;
            plane.until_controllers_work(&admin).await?;
        }

        plane.state.save()?;
        Ok(plane)
    }

    fn run(&mut self, program: &Path, name: &str, arguments: &[String]) -> Result<()> {
        let daemon = Daemon::start(name, program, arguments, &self.state.folder)?;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(&daemon)?;
        }
        self.state.processes.push(daemon.handle().clone());
        self.daemons.push(daemon);
        Ok(())
    }

    /// Waits until the API server is ready, and returns a client for `admin`.
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

    /// Waits until the node is ready, which shows that kwok works, and until the default service
    /// account exists, which shows that the controller manager works.
    async fn until_controllers_work(&mut self, admin: &Client) -> Result<()> {
        let nodes = Api::<Node>::all(admin.clone());
        let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "default");
        let ready = async {
            eventually(&nodes, components::NODE, START_DEADLINE, "ready", |node| {
                node.is_some_and(components::is_ready)
            })
            .await?;
            eventually(&accounts, "default", START_DEADLINE, "created", |a| {
                a.is_some()
            })
            .await
        };
        tokio::pin!(ready);
        loop {
            tokio::select! {
                outcome = &mut ready => return outcome.map(drop),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            for daemon in &mut self.daemons {
                daemon.check_alive()?;
            }
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Stop in reverse order: the API server before etcd.
        while let Some(daemon) = self.daemons.pop() {
            drop(daemon);
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
            // If this fails, the folder remains among the temporary files.
            let _ = discard_folder(&self.state.folder);
        }
    }
}

/// A client for a kubeconfig file.
///
/// It works only in the runtime that creates it, so tests never share one.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let read = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &Default::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Creates a certificate authority, the certificate of the API server for these addresses, and the key
/// of service accounts.
pub(crate) fn write_certificates(
    folder: &Path,
    addresses: &[&str],
) -> Result<CertificateAuthority> {
    let authority = CertificateAuthority::generate()?;
    authority.save(folder)?;
    let mut names = vec!["kubernetes.default.svc"];
    names.extend(addresses);
    let server = authority.server(&names)?;
    fs::write(folder.join("server.crt"), server.certificate)?;
    fs::write(folder.join("server.key"), server.key)?;
    let accounts = KeyPair::generate()?;
    fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(folder.join("accounts.pub"), accounts.public_key_pem())?;
    Ok(authority)
}

/// The version of the binary. One from `KUBEBUILDER_ASSETS` can differ from the pinned version.
fn version_of(api_server: &Path) -> Result<String> {
    let output = std::process::Command::new(api_server)
        .arg("--version")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().strip_prefix("Kubernetes ") {
        Some(version) => Ok(version.to_owned()),
        None => toolchain::version(Tool::KubeApiserver),
    }
}

fn free_ports(count: usize) -> Result<Vec<u16>> {
    // Bind all of them before closing any, so that they differ.
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<_>>()?;
    let ports: BTreeSet<u16> = listeners
        .iter()
        .map(|l| Ok(l.local_addr()?.port()))
        .collect::<Result<_>>()?;
    Ok(ports.into_iter().collect())
}

//! The first program inside the node's namespaces: starts everything else, and watches it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::Api;
use tokio::sync::oneshot;

use super::network::{self, Network};
use super::supervisor::Record;
use super::{command, config, dns, images};
use crate::components::{self, ApiServer};
use crate::control_plane::{self, State};
use crate::process::Daemon;
use crate::toolchain::{self, Tool};
use crate::users;
use crate::wait::{eventually, until};

/// A busy machine with two cores needs fifteen seconds. The rest is a margin for slower ones.
const START_DEADLINE: Duration = Duration::from_secs(180);

const ETCD_PORT: u16 = 2379;
const API_PORT: u16 = 6443;

/// Settings of the kernel that the kubelet insists on. They belong to the whole machine, so the kubelet
/// gets to see files with the values that it wants.
const KERNEL_SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Folders of `/var/lib` in which the kubelet and the CNI library leave files, however they are configured.
const BELOW_VAR_LIB: [&str; 2] = ["kubelet", "cni"];

/// Starts a control plane and a node, and runs until standard input ends or a program exits.
pub async fn init(folder: &Path, is_detached: bool) -> Result<()> {
    mount_private_folders()?;
    let record = until("the supervisor names the network", START_DEADLINE, || {
        std::future::ready(Record::load(folder))
    })
    .await?;
    network::configure_node(record.network).await?;

    let mut node = Processes::new(folder)?;
    node.start(&record).await?;
    let mut end = std::pin::pin!(end_of_input());
    loop {
        tokio::select! {
            _ = &mut end, if !is_detached => return Ok(()),
            () = tokio::time::sleep(Duration::from_secs(1)) => node.check_alive()?,
        }
    }
}

/// Completes when standard input ends. A thread reads it, because a task that blocks would keep this
/// process from ending.
fn end_of_input() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(());
    });
    receiver
}

/// Hides the folders in which the node's programs leave files, and the kernel's settings.
fn mount_private_folders() -> Result<()> {
    for folder in ["/run", "/var/log"] {
        mount_empty(folder)?;
    }
    hide_below_var_lib()?;
    for (name, value) in KERNEL_SETTINGS {
        let setting = format!("/proc/sys/{name}");
        if !Path::new(&setting).exists() {
            continue;
        }
        let file = format!("/run/{}", name.replace('/', "."));
        fs::write(&file, format!("{value}\n"))?;
        command::run("mount", &["--bind", &file, &setting])?;
    }
    Ok(())
}

/// Hides [`BELOW_VAR_LIB`]. A mount needs a folder to be on, which may not exist and must not stay behind. So
/// `/var/lib` is replaced, and its other folders are mounted again: the cache of this user may be in one.
fn hide_below_var_lib() -> Result<()> {
    let all = Path::new("/run/var-lib");
    fs::create_dir(all)?;
    command::run("mount", &["--rbind", "/var/lib", &all.to_string_lossy()])?;
    mount_empty("/var/lib")?;
    for entry in fs::read_dir(all)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let path = Path::new("/var/lib").join(&name);
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, path)?;
        } else if kind.is_dir() && BELOW_VAR_LIB.iter().all(|&hidden| name != hidden) {
            fs::create_dir(&path)?;
            let [from, to] = [entry.path(), path].map(|path| path.to_string_lossy().into_owned());
            command::run("mount", &["--rbind", &from, &to])?;
        }
    }
    Ok(())
}

fn mount_empty(folder: &str) -> Result<()> {
    command::run("mount", &["-t", "tmpfs", "tmpfs", folder])
}

/// The processes of the node, in the order of their start.
struct Processes {
    folder: PathBuf,
    cache: PathBuf,
    daemons: Vec<Daemon>,
}

impl Processes {
    fn new(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: folder.to_owned(),
            cache: toolchain::cache_dir()?,
            daemons: Vec::new(),
        })
    }

    async fn start(&mut self, record: &Record) -> Result<()> {
        let network = record.network;
        let server = format!("https://{}:{API_PORT}", network.node());
        write_certificates(&self.folder, network)?;
        users::create_built_in(&self.folder, &server)?;
        users::create_for_node(&self.folder, &server, config::NODE)?;
        config::write(&self.folder, network, &record.cgroup)?;
        let policy = components::audit_policy().to_string();
        fs::write(self.folder.join("audit-policy.json"), policy)?;

        self.run_system("containerd", &["--config", "etc/containerd.toml"])?;
        self.run(
            Tool::Etcd,
            &components::etcd_arguments(ETCD_PORT, ETCD_PORT + 1),
        )?;
        let api_server = ApiServer {
            address: &network.node().to_string(),
            port: API_PORT,
            etcd_port: ETCD_PORT,
            services: &network.services(),
        };
        let mut arguments = api_server.arguments();
        arguments.extend(components::real_node_arguments());
        self.run(Tool::KubeApiserver, &arguments)?;
        self.run(
            Tool::Registry,
            &["serve".into(), "etc/registry.json".into()],
        )?;
        let images = images::import_system_images(&self.folder, &self.cache);
        images.await?;

        let admin = self.until_api_server_is_ready().await?;
        self.run(
            Tool::KubeControllerManager,
            &components::controller_manager_arguments(),
        )?;
        self.run(Tool::KubeScheduler, &components::scheduler_arguments())?;
        let arguments = kubelet_arguments(&self.folder, network);
        self.run(Tool::Kubelet, &arguments)?;
        self.run(Tool::KubeProxy, &["--config=etc/kube-proxy.json".into()])?;
        self.until_pods_run(&admin, network).await?;
        self.save_state(server)
    }

    fn run(&mut self, tool: Tool, arguments: &[String]) -> Result<()> {
        let program = toolchain::locate(&self.cache, tool)?
            .with_context(|| format!("{tool} is not built; run `testbed build`"))?;
        let daemon = Daemon::start(tool.name(), &program, arguments, &self.folder)?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn run_system(&mut self, program: &str, arguments: &[&str]) -> Result<()> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let daemon = Daemon::start(program, Path::new(program), &arguments, &self.folder)?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn check_alive(&mut self) -> Result<()> {
        self.daemons.iter_mut().try_for_each(Daemon::check_alive)
    }

    async fn until_api_server_is_ready(&mut self) -> Result<Client> {
        let kubeconfig = users::kubeconfig(&self.folder, "admin")?;
        let client = control_plane::client(&kubeconfig).await?;
        let is_ready = || async {
            let request = axum::http::Request::get("/readyz").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(())
        };
        let ready = until("the API server is ready", START_DEADLINE, is_ready);
        self.while_alive(ready).await?;
        Ok(client)
    }

    /// Waits until the node is ready and the cluster DNS, which is a pod, answers.
    async fn until_pods_run(&mut self, admin: &Client, network: Network) -> Result<()> {
        let nodes = Api::<Node>::all(admin.clone());
        let ready = async {
            eventually(&nodes, config::NODE, START_DEADLINE, "ready", |node| {
                node.is_some_and(components::is_ready)
            })
            .await?;
            dns::install(admin, network).await
        };
        self.while_alive(ready).await
    }

    /// Waits for `work`, and fails early if a program exits.
    async fn while_alive<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                outcome = &mut work => return outcome,
                () = tokio::time::sleep(Duration::from_millis(500)) => self.check_alive()?,
            }
        }
    }

    /// Writes the file that shows that the node is complete.
    fn save_state(&self, server: String) -> Result<()> {
        let kubectl = toolchain::locate(&self.cache, Tool::Kubectl)?;
        let state = State {
            folder: self.folder.clone(),
            server,
            version: toolchain::version(Tool::Kubelet)?,
            has_controllers: true,
            kubectl: kubectl.context("kubectl is not built")?,
            // They are in another process namespace, and end with it.
            processes: Vec::new(),
        };
        state.save()
    }
}

fn write_certificates(folder: &Path, network: Network) -> Result<()> {
    let node = network.node().to_string();
    let service = network.api_service().to_string();
    let authority = control_plane::write_certificates(folder, &[&node, &service])?;
    let kubelet = authority.server(&[&node, config::NODE])?;
    fs::write(folder.join("kubelet.crt"), kubelet.certificate)?;
    fs::write(folder.join("kubelet.key"), kubelet.key)?;
    // With this certificate the API server asks the kubelet for logs.
    let client = authority.client("kube-apiserver", Some("system:masters"))?;
    fs::write(folder.join("kubelet-client.crt"), client.certificate)?;
    fs::write(folder.join("kubelet-client.key"), client.key)?;
    Ok(())
}

fn kubelet_arguments(folder: &Path, network: Network) -> Vec<String> {
    vec![
        "--config=etc/kubelet.json".into(),
        "--kubeconfig=kubelet.kubeconfig".into(),
        format!("--hostname-override={}", config::NODE),
        format!("--node-ip={}", network.node()),
        // The kubelet looks for the mount point of its folder, which needs the whole path.
        format!("--root-dir={}", folder.join("kubelet").display()),
        format!("--cert-dir={}", folder.join("kubelet/pki").display()),
    ]
}

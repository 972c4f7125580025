//! A control plane as tests use it: clients, kubectl, users and namespaces.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::sync::{Mutex, OnceCell};

use crate::audit::AuditLog;
use crate::components::AUDIT_FILE;
use crate::control_plane::{self, ControlPlane, Controllers, State, keeps_data};
use crate::invocation::Invocation;
use crate::namespace::Namespace;
use crate::toolchain::Release;
use crate::users;

/// A running control plane.
///
/// Its users are `admin`, who may do everything, `operator`, who has no permissions until a test
/// grants them, and those added with [`Testbed::add_user`].
#[derive(Debug)]
pub struct Testbed {
    state: State,
    /// `None` if another process started it.
    owned: Option<Mutex<ControlPlane>>,
}

impl Testbed {
    /// The shared control plane of the newest release.
    ///
    /// Connects to the one whose state file `LLSD_TESTBED` names. Otherwise starts one, which stops
    /// with this process.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Testbed> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::connect_or_start("LLSD_TESTBED", Release::Newest))
            .await
    }

    /// The shared API server of the oldest release. It runs without controllers, so Deployments
    /// create no pods and namespaces are not deleted.
    ///
    /// Connects to the one whose state file `LLSD_TESTBED_OLDEST` names. Otherwise starts one.
    pub async fn shared_oldest() -> Result<&'static Self> {
        static SHARED: OnceCell<Testbed> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::connect_or_start("LLSD_TESTBED_OLDEST", Release::Oldest))
            .await
    }

    /// Starts a control plane for the caller alone. It stops when dropped.
    pub async fn start(release: Release) -> Result<Self> {
        Self::start_with(release, Controllers::Run).await
    }

    /// Starts an API server of the newest release for the caller alone, without controllers. It stops when
    /// dropped.
    pub async fn start_api_server() -> Result<Self> {
        Self::start_with(Release::Newest, Controllers::Off).await
    }

    async fn start_with(release: Release, controllers: Controllers) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("llsd-testbed-")
            .disable_cleanup(true)
            .tempdir()?;
        if keeps_data() {
            crate::toolchain::print_progress(&format!(
                "data and logs are kept in {}",
                folder.path().display()
            ));
        }
        let plane = ControlPlane::start(release, controllers, folder.path()).await?;
        Ok(Self {
            state: plane.state().clone(),
            owned: Some(Mutex::new(plane)),
        })
    }

    /// Connects to a control plane by its state file.
    pub fn connect(state_file: &Path) -> Result<Self> {
        Ok(Self {
            state: State::load(state_file)?,
            owned: None,
        })
    }

    /// Its address, version and folder.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A client for a user. It works only in the runtime that creates it.
    pub async fn client(&self, user: &str) -> Result<Client> {
        control_plane::client(&self.kubeconfig(user)?).await
    }

    /// The kubeconfig file of a user.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        users::kubeconfig(&self.state.folder, user)
    }

    /// Creates a user, unless it exists, and returns its kubeconfig file. The user has only the
    /// permissions that are granted to it or its group.
    pub fn add_user(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        users::add(&self.state.folder, &self.state.server, user, group)
    }

    /// `kubectl` as a user.
    pub fn kubectl(&self, user: &str) -> Result<Invocation> {
        Ok(Invocation::new(&self.state.kubectl)
            .env("KUBECONFIG", self.kubeconfig(user)?)
            // A shared discovery cache would describe another API server on the same port.
            .env("KUBECACHEDIR", self.state.folder.join("kubectl-cache")))
    }

    /// Creates a namespace whose name starts with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        Namespace::create(self, prefix).await
    }

    /// Kills the API server, starts it again and waits until it is ready. Fails if another process
    /// started the control plane.
    pub async fn restart_api_server(&self) -> Result<()> {
        let owned = self.owned.as_ref();
        let owned = owned
            .context("cannot restart the API server: another process started this control plane")?;
        owned.lock().await.restart_api_server().await
    }

    /// The audit log of the API server.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.state.folder.join(AUDIT_FILE))
    }

    async fn connect_or_start(variable: &str, release: Release) -> Result<Self> {
        match std::env::var_os(variable) {
            Some(file) if !file.is_empty() => Self::connect(Path::new(&file)),
            _ => Self::start(release).await,
        }
    }
}

//! What a test holds: one control plane, seen by any of its users.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::sync::{Mutex, OnceCell};

use crate::audit::AuditLog;
use crate::components::AUDIT_FILE;
use crate::control_plane::{self, ControlPlane, State, keeps_data};
use crate::invocation::Invocation;
use crate::namespace::Namespace;
use crate::toolchain::Release;
use crate::users;

/// A running control plane.
///
/// Users are `admin`, who may do everything, `operator`, who may do what a test grants, and those
/// added with [`Testbed::add_user`].
#[derive(Debug)]
pub struct Testbed {
    state: State,
    /// Absent when another process started it.
    owned: Option<Mutex<ControlPlane>>,
}

impl Testbed {
    /// The control plane of the newest release that all tests of a run share.
    ///
    /// It is the one whose state file `LLSD_TESTBED` names, otherwise one that this process starts
    /// and that ends with the process.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Testbed> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::connect_or_start("LLSD_TESTBED", Release::Newest))
            .await
    }

    /// The API server of the oldest release that all tests of a run share: no controllers, so
    /// Deployments make no pods and namespaces stay.
    ///
    /// It is the one whose state file `LLSD_TESTBED_OLDEST` names, otherwise one of this process.
    pub async fn shared_oldest() -> Result<&'static Self> {
        static SHARED: OnceCell<Testbed> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::connect_or_start("LLSD_TESTBED_OLDEST", Release::Oldest))
            .await
    }

    /// Starts a control plane for the caller alone; it ends when dropped.
    pub async fn start(release: Release) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("llsd-testbed-")
            .disable_cleanup(true)
            .tempdir()?;
        if keeps_data() {
            crate::toolchain::say(&format!(
                "data and logs stay in {}",
                folder.path().display()
            ));
        }
        let plane = ControlPlane::start(release, folder.path()).await?;
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

    /// Address, version and folder.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A client with a user's identity, for the runtime it is made in.
    pub async fn client(&self, user: &str) -> Result<Client> {
        control_plane::client(&self.kubeconfig(user)?).await
    }

    /// The kubeconfig file of a user.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        users::kubeconfig(&self.state.folder, user)
    }

    /// The kubeconfig file of a user who is made if new, and who may do only what is granted to the
    /// user or the group.
    pub fn add_user(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        users::add(&self.state.folder, &self.state.server, user, group)
    }

    /// `kubectl` with a user's identity.
    pub fn kubectl(&self, user: &str) -> Result<Invocation> {
        Ok(Invocation::new(&self.state.kubectl)
            .env("KUBECONFIG", self.kubeconfig(user)?)
            // What it learns about this API server must not outlive it.
            .env("KUBECACHEDIR", self.state.folder.join("kubectl-cache")))
    }

    /// A new namespace whose name starts with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        Namespace::create(self, prefix).await
    }

    /// Ends the API server without warning, starts it again, and waits until it is ready. Only for a
    /// control plane of one's own.
    pub async fn restart_api_server(&self) -> Result<()> {
        let owned = self.owned.as_ref();
        let owned = owned.context("another process started this control plane")?;
        owned.lock().await.restart_api_server().await
    }

    /// Which requests were made.
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

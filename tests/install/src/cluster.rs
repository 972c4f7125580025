//! A cluster with our operator, for one test alone, because an installation affects a whole cluster.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use llsd_testbed::toolchain::Release;
use llsd_testbed::{Invocation, Registry, Testbed, until};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::program;

const RESOURCES: &str = "llamastackdistributions.v1alpha2.llamastack.io";

/// The time within which `llsd operator --dev` must install its CRDs.
const DEADLINE: Duration = Duration::from_secs(240);

/// A control plane and an operator, which are stopped when dropped.
pub struct Cluster {
    testbed: Testbed,
    kubeconfig: PathBuf,
    log: PathBuf,
    operator: Child,
}

impl Cluster {
    /// Starts both and waits until resources can be applied. The operator may pull from `registry`,
    /// although it listens on loopback.
    pub async fn start(registry: &Registry) -> Result<Self> {
        Self::start_on(Testbed::start(Release::Newest).await?, registry.host()).await
    }

    /// Starts an operator on a control plane that may hold objects already.
    pub async fn start_on(testbed: Testbed, registry: &str) -> Result<Self> {
        let kubeconfig = testbed.kubeconfig("admin")?;
        let log = testbed.state().folder.join("operator.log");
        let operator = Command::new(program("LLSD_BIN")?)
            .args(["operator", "--dev"])
            .env("KUBECONFIG", &kubeconfig)
            .env("LLSD_PLAIN_HTTP", registry)
            .env("LLSD_ALLOW_ADDRESS", registry)
            .stdin(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        let cluster = Self {
            testbed,
            kubeconfig,
            log,
            operator,
        };
        // The API server serves a new CRD after a moment.
        let list = ["get", RESOURCES, "--all-namespaces"];
        until("resources are served", DEADLINE, || cluster.run(&list)).await?;
        Ok(cluster)
    }

    /// The control plane.
    pub fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// The kubeconfig file of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// kubectl as the administrator, with `bin` first on its PATH.
    pub fn kubectl_with(&self, bin: &Path) -> Result<Invocation> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        let kubectl = self.testbed.kubectl("admin")?;
        Ok(kubectl.env("PATH", std::env::join_paths(folders)?))
    }

    /// Kills the operator.
    pub async fn stop_operator(&mut self) -> Result<()> {
        Ok(self.operator.kill().await?)
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> Result<()> {
        let kubectl = self
            .testbed
            .kubectl("admin")?
            .args(["create", "--filename=-"]);
        kubectl.input(object.to_string()).run().await?.success()?;
        Ok(())
    }

    /// Runs kubectl, which must succeed, and returns its standard output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let finished = self.testbed.kubectl("admin")?.args(arguments).run().await?;
        finished.success().with_context(|| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            format!("log of the operator:\n{log}")
        })
    }
}

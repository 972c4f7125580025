//! `testbed playground`: a cluster to try `llsd` in, until Ctrl-C.
//!
//! In: the `llsd` binary and manifests. Out: a control plane, a registry and an operator, the resources
//! applied and ready, and example commands on standard output. Everything stops with this process. With
//! the packages of a server, the node is real; otherwise it is simulated, and everything is on loopback.

mod on_node;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use llsd_testbed::node::ServerPackages;
use llsd_testbed::toolchain::Release;
use llsd_testbed::{Registry, RegistryOptions, Testbed};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The operator first compiles its plugins, which is slow in an unoptimised build.
const READY_WITHIN: &str = "--timeout=300s";

/// Starts everything, prints how to use it, and waits for SIGINT or SIGTERM.
pub(crate) async fn run(
    llsd: &Path,
    resources: &[PathBuf],
    packages: Option<ServerPackages>,
) -> Result<()> {
    // Install the handlers first, so that a signal during the start also stops everything.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let session = async {
        if let Some(packages) = packages {
            // Bound to a name: the node stops when it is dropped.
            let (_node, usage) = on_node::start(llsd, &packages).await?;
            crate::print_line(&usage);
            return std::future::pending().await;
        }
        let playground = Playground::start(llsd).await?;
        playground.apply(resources).await?;
        crate::print_line(&playground.usage());
        playground.until_operator_exits().await
    };
    tokio::select! {
        ended = session => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

struct Playground {
    testbed: Testbed,
    registry: Registry,
    operator: Child,
    /// A folder for PATH with kubectl, llsd and the kubectl plugin.
    bin: PathBuf,
    log: PathBuf,
}

impl Playground {
    async fn start(llsd: &Path) -> Result<Self> {
        let testbed = Testbed::start(Release::Newest).await?;
        let registry = Registry::start(&RegistryOptions::default()).await?;
        let folder = &testbed.state().folder;
        let bin = link_programs(folder, llsd, &testbed.state().kubectl)?;
        let log = folder.join("operator.log");
        let operator = Command::new(llsd)
            .args(["operator", "--dev"])
            .env("KUBECONFIG", testbed.kubeconfig("admin")?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            testbed,
            registry,
            operator,
            bin,
            log,
        })
    }

    /// Applies every manifest and waits until all resources are ready.
    async fn apply(&self, resources: &[PathBuf]) -> Result<()> {
        let kubectl = || self.testbed.kubectl("admin");
        let definition = "crd/llamastackdistributions.llamastack.io";
        let served = kubectl()?.args(["wait", "--for=create", definition, READY_WITHIN]);
        served.run().await?.success()?;
        let established = kubectl()?.args([
            "wait",
            "--for=condition=Established",
            definition,
            READY_WITHIN,
        ]);
        established.run().await?.success()?;
        for file in resources {
            let applied = kubectl()?.args(["apply", "--filename"]).arg(file);
            applied.run().await?.success()?;
        }
        let ready = kubectl()?.args([
            "wait",
            "--for=jsonpath={.status.phase}=Ready",
            "llamastackdistribution",
            "--all",
            READY_WITHIN,
        ]);
        let waited = ready.run().await?.success();
        waited.with_context(|| {
            format!(
                "the resources did not become ready; operator log:\n{}",
                self.log_text()
            )
        })?;
        Ok(())
    }

    fn usage(&self) -> String {
        let folder = &self.testbed.state().folder;
        format!(
            "\
Ready. In another terminal:

  export KUBECONFIG='{kubeconfig}' PATH='{bin}':\"$PATH\"
  kubectl get llsd                       # list the resources and their state
  kubectl describe llsd minimal          # one resource, with its conditions and events
  kubectl edit llsd minimal              # change something and look again
  llsd render -f samples/minimal.yaml    # the generated server configuration, without a cluster
  kubectl apply -f samples/tools.yaml    # more to try: this one waits for a Secret

registry: {registry} (plain HTTP, no authentication), operator log: {log}
Ctrl-C stops and removes everything.",
            kubeconfig = folder.join("admin.kubeconfig").display(),
            bin = self.bin.display(),
            registry = self.registry.host(),
            log = self.log.display(),
        )
    }

    /// Returns only if the operator exits by itself, with an error that holds its log.
    async fn until_operator_exits(mut self) -> Result<()> {
        let status = self.operator.wait().await?;
        bail!(
            "the operator exited with {status}; its log:\n{}",
            self.log_text()
        )
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Creates a folder for PATH with kubectl, llsd and the kubectl plugin.
fn link_programs(folder: &Path, llsd: &Path, kubectl: &Path) -> Result<PathBuf> {
    let bin = folder.join("bin");
    fs::create_dir(&bin)?;
    let llsd = fs::canonicalize(llsd)
        .with_context(|| format!("llsd binary not found at {}", llsd.display()))?;
    symlink(kubectl, bin.join("kubectl"))?;
    for name in ["llsd", "kubectl-llsd"] {
        symlink(&llsd, bin.join(name))?;
    }
    Ok(bin)
}

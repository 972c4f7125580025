//! `testbed playground`: a cluster to try things in, until Ctrl-C.
//!
//! In: the binary `llsd` and resources. Out: a control plane, a registry and an operator on loopback, the
//! resources applied and ready, and commands to go on with on standard output. Everything ends with
//! this process.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use llsd_testbed::toolchain::Release;
use llsd_testbed::{Registry, RegistryOptions, Testbed};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The operator compiles its plugins first, which an unoptimised build does slowly.
const READY_WITHIN: &str = "--timeout=300s";

/// Starts everything, says how to use it, and waits to be told to end.
pub(crate) async fn run(llsd: &Path, resources: &[PathBuf]) -> Result<()> {
    // Asked for first, so that a signal during the start is an orderly end as well.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let session = async {
        let playground = Playground::start(llsd).await?;
        playground.apply(resources).await?;
        crate::print_line(&playground.introduction());
        playground.operator_ends().await
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
    /// On PATH: kubectl, llsd, and llsd as kubectl's plugin.
    bin: PathBuf,
    log: PathBuf,
}

impl Playground {
    async fn start(llsd: &Path) -> Result<Self> {
        let testbed = Testbed::start(Release::Newest).await?;
        let registry = Registry::start(&RegistryOptions::default()).await?;
        let folder = &testbed.state().folder;
        let bin = folder.join("bin");
        fs::create_dir(&bin)?;
        let llsd = fs::canonicalize(llsd)
            .with_context(|| format!("there is no llsd at {}", llsd.display()))?;
        symlink(&testbed.state().kubectl, bin.join("kubectl"))?;
        for name in ["llsd", "kubectl-llsd"] {
            symlink(&llsd, bin.join(name))?;
        }
        let log = folder.join("operator.log");
        let operator = Command::new(&llsd)
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

    /// Applies every file and waits until what is in it is ready.
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
        waited.with_context(|| format!("the operator's log is\n{}", self.log_text()))?;
        Ok(())
    }

    fn introduction(&self) -> String {
        let folder = &self.testbed.state().folder;
        format!(
            "\
Ready. In another terminal:

  export KUBECONFIG='{kubeconfig}' PATH='{bin}':\"$PATH\"
  kubectl get llsd                       # the resources, and how they are
  kubectl describe llsd minimal          # one of them, with its conditions and events
  kubectl edit llsd minimal              # change something and look again
  llsd render -f samples/minimal.yaml    # the server's file, without a cluster
  kubectl apply -f samples/tools.yaml    # more to try; this one waits for a Secret and says so

registry: {registry} (plain HTTP, open), operator's log: {log}
Ctrl-C ends and removes everything.",
            kubeconfig = folder.join("admin.kubeconfig").display(),
            bin = self.bin.display(),
            registry = self.registry.host(),
            log = self.log.display(),
        )
    }

    /// Returns, with its log, only when the operator ends by itself.
    async fn operator_ends(mut self) -> Result<()> {
        let status = self.operator.wait().await?;
        bail!(
            "the operator ended with {status}; its log is\n{}",
            self.log_text()
        )
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

//! Runs the commands of the guides as a reader would.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Registry, RegistryOptions};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Block, checkout, program};

/// The longest guide compiles a plugin twice.
const DEADLINE: Duration = Duration::from_secs(600);

/// The environment of a reader: our programs on PATH, an empty folder, a registry, and optionally a
/// cluster.
pub struct GuideRunner {
    home: TempDir,
    registry: Registry,
    kubeconfig: Option<PathBuf>,
}

impl GuideRunner {
    /// Creates the environment without a cluster.
    pub async fn new() -> Result<Self> {
        let home = tempfile::tempdir()?;
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin)?;
        let llsd = program("LLSD_BIN")?;
        let tools = [Tool::Kubectl, Tool::Helm, Tool::Crane];
        let built = ensure_built(&cache_dir()?, &tools)?;
        let given = [
            ("llsd", llsd.clone()),
            ("kubectl-llsd", llsd),
            ("wasmtime", program("LLSD_WASMTIME_BIN")?),
            ("cosign", program("LLSD_COSIGN_BIN")?),
        ];
        let built = tools.iter().map(|tool| tool.name()).zip(built);
        for (name, program) in built.chain(given) {
            symlink(program, bin.join(name))?;
        }
        let work = home.path().join("work");
        std::fs::create_dir(&work)?;
        for name in ["samples", "deploy"] {
            symlink(checkout().join(name), work.join(name))?;
        }
        let runner = Self {
            home,
            registry: Registry::start(&RegistryOptions::default()).await?,
            kubeconfig: None,
        };
        runner.create_prerequisites().await?;
        Ok(runner)
    }

    /// Creates the files that the guides assume: a server configuration, an image with it, a resource.
    async fn create_prerequisites(&self) -> Result<()> {
        let base = checkout().join("host/render/distributions/starter.yaml");
        let base = base.display();
        self.run(&format!(
            "cp {base} config.yaml
             mkdir app && cp config.yaml app
             tar -cf layer.tar app
             crane append --oci-empty-base --new_layer layer.tar --new_tag $REGISTRY/stack:build
             cp samples/minimal.yaml my-stack.yaml"
        ))
        .await
    }

    /// Uses a cluster.
    pub fn with_cluster(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// The registry to which the commands may push.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Runs the commands of several blocks in one shell, and stops at the first that fails.
    pub async fn run_blocks(&self, page: &Path, blocks: &[Block]) -> Result<()> {
        let mut script = String::new();
        for block in blocks {
            for command in &block.commands {
                script += &format!(
                    "echo '--- {}:{}' >&2\n{command}\n",
                    page.display(),
                    block.line
                );
            }
        }
        self.run(&script).await
    }

    /// Runs a shell script in the environment.
    async fn run(&self, script: &str) -> Result<()> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.home.path().join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&path));
        let mut shell = Command::new("bash");
        shell
            .args(["-euc", script])
            .current_dir(self.home.path().join("work"))
            .env("PATH", std::env::join_paths(folders)?)
            .env("LLSD", checkout())
            .env("REGISTRY", format!("{}/acme", self.registry.host()))
            .env("LLSD_PLAIN_HTTP", self.registry.host())
            // A shared discovery cache would describe another cluster on the same port.
            .env("KUBECACHEDIR", self.home.path().join("kubectl-cache"))
            // The crates that a reader creates have their own target folders.
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(kubeconfig) = &self.kubeconfig {
            shell.env("KUBECONFIG", kubeconfig);
        }
        let output = tokio::time::timeout(DEADLINE, shell.output())
            .await
            .with_context(|| format!("the commands did not finish within {DEADLINE:?}"))??;
        ensure!(
            output.status.success(),
            "{}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

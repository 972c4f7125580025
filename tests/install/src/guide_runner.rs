//! A reader of the guides, who types what they say.

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

/// A machine as a reader has it: our programs on PATH, an empty folder, a registry, and a cluster when
/// the guide is about one.
pub struct Reader {
    home: TempDir,
    registry: Registry,
    kubeconfig: Option<PathBuf>,
}

impl Reader {
    /// Without a cluster.
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
        let reader = Self {
            home,
            registry: Registry::start(&RegistryOptions::default()).await?,
            kubeconfig: None,
        };
        reader.bring_own_things().await?;
        Ok(reader)
    }

    /// What the guides take for granted: the server's file, an image that holds it, a resource.
    async fn bring_own_things(&self) -> Result<()> {
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

    /// The same reader at a cluster.
    pub fn at(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// Where the reader may push to.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Types the commands into one shell, and stops at the first that fails.
    pub async fn type_in(&self, page: &Path, blocks: &[Block]) -> Result<()> {
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

    /// Runs a script as the reader would.
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
            // What it learns about a cluster must not outlive it.
            .env("KUBECACHEDIR", self.home.path().join("kubectl-cache"))
            // A reader's own crates are built in folders of their own.
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(kubeconfig) = &self.kubeconfig {
            shell.env("KUBECONFIG", kubeconfig);
        }
        let output = tokio::time::timeout(DEADLINE, shell.output())
            .await
            .context("the commands take too long")??;
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

//! `verify-release`: installs a release from its artifacts alone, as a user would.
//!
//! In: the folder and the registry of a release, and the public key if it is signed. Digests and
//! signatures are checked with sha256sum, crane and cosign. Then `install.yaml` and the chart are
//! installed on empty control planes, and the binary from its archive runs as the operator, with an
//! adapter from the registry. Programs run with an empty home folder.
//!
//! `cargo xtask release --verify` runs it.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use llsd_testbed::toolchain::{Release, Tool, cache_dir, ensure_built};
use llsd_testbed::{Invocation, Testbed, until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The time within which the operator must install its CRDs.
const DEADLINE: Duration = Duration::from_secs(100);
const NAMESPACE: &str = "llsd-system";
/// An adapter that is not built in.
const ADAPTER: &str = "adapters/ogx";

#[tokio::main]
async fn main() -> ExitCode {
    match verify().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn verify() -> Result<()> {
    let user = User::from_arguments()?;
    user.check_files().await?;
    user.check_registry().await?;
    user.unpack().await?;
    // Each installation gets a control plane of its own: Helm cannot take over objects of kubectl.
    user.install_manifests(&Testbed::start(Release::Newest).await?)
        .await?;
    user.install_chart(&Testbed::start(Release::Newest).await?)
        .await?;
    user.run_operator(&Testbed::start(Release::Newest).await?)
        .await?;
    say("the release is complete, and can be installed from its artifacts alone");
    Ok(())
}

/// Someone who has the artifacts, the stock tools and an empty home folder.
struct User {
    home: TempDir,
    dist: PathBuf,
    registry: String,
    key: Option<PathBuf>,
    cosign: PathBuf,
    crane: PathBuf,
    helm: PathBuf,
    /// Name, such as `charts/llsd:0.1.0`, and digest of every artifact.
    artifacts: Vec<(String, String)>,
    version: String,
}

impl User {
    /// The arguments: folder, registry, cosign, and the public key if there is one.
    fn from_arguments() -> Result<Self> {
        let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
        let mut next = |what: &str| arguments.next().with_context(|| format!("missing: {what}"));
        let dist = std::path::absolute(next("the folder of the release")?)?;
        let registry = next("the registry")?.display().to_string();
        let cosign = next("cosign")?;
        let key = next("the key").ok().map(std::path::absolute).transpose()?;
        let mut tools = ensure_built(&cache_dir()?, &[Tool::Crane, Tool::Helm])?.into_iter();
        let mut tool = || tools.next().context("a tool was not built");
        let artifacts = artifacts(&dist)?;
        let (first, _) = artifacts.first().context("the release is empty")?;
        let (_, version) = first.rsplit_once(':').context("an artifact has no tag")?;
        Ok(Self {
            home: tempfile::tempdir()?,
            version: version.to_owned(),
            crane: tool()?,
            helm: tool()?,
            dist,
            registry: registry.trim_end_matches('/').to_owned(),
            key,
            cosign,
            artifacts,
        })
    }

    /// A program in the empty home folder.
    fn program(&self, program: &Path) -> Invocation {
        let home = self.home.path();
        Invocation::new(program)
            .env("HOME", home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("DOCKER_CONFIG", home)
    }

    fn llsd(&self) -> PathBuf {
        let architecture = std::env::consts::ARCH;
        let folder = format!("llsd-{}-{architecture}-unknown-linux-musl", self.version);
        self.home.path().join(folder).join("bin/llsd")
    }

    /// Compares every file with its checksum, and the checksums with their signature.
    async fn check_files(&self) -> Result<()> {
        say("==> checksums");
        let sums = self.dist.join("SHA256SUMS");
        let listed = std::fs::read_to_string(&sums)
            .with_context(|| format!("failed to read {}", sums.display()))?;
        let absolute: String = listed
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(digest, name)| format!("{digest}  {}\n", self.dist.join(name).display()))
            .collect();
        let check = self.program(Path::new("sha256sum"));
        let check = check.args(["--check", "--strict", "--quiet", "-"]);
        check.input(absolute).run().await?.success()?;
        let Some(key) = &self.key else {
            return Ok(());
        };
        let verify = self.program(&self.cosign).args(["verify-blob", "--key"]);
        let verify = verify.arg(key).args(["--insecure-ignore-tlog", "--bundle"]);
        let bundle = self.dist.join("SHA256SUMS.sigstore.json");
        verify.arg(bundle).arg(sums).run().await?.success()?;
        Ok(())
    }

    /// Compares every tag with its digest, and verifies the signatures.
    async fn check_registry(&self) -> Result<()> {
        say(&format!("==> artifacts in {}", self.registry));
        for (name, digest) in &self.artifacts {
            let reference = format!("{}/{name}", self.registry);
            let crane = self.program(&self.crane).args(["digest", &reference]);
            let found = crane.run().await?.success()?;
            ensure!(
                found.trim() == digest,
                "{reference} has the digest {} instead of {digest}",
                found.trim()
            );
            if let Some(key) = &self.key {
                let verify = self.program(&self.cosign).args(["verify", "--key"]);
                let verify = verify.arg(key).arg("--insecure-ignore-tlog");
                let verify = verify.args(["--allow-http-registry", &reference]);
                verify.run().await?.success()?;
            }
        }
        Ok(())
    }

    /// Unpacks the archive of the command line, and runs what it contains.
    async fn unpack(&self) -> Result<()> {
        say("==> command line");
        let architecture = std::env::consts::ARCH;
        let name = format!(
            "llsd-{}-{architecture}-unknown-linux-musl.tar.gz",
            self.version
        );
        let tar = self.program(Path::new("tar")).arg("--extract");
        let tar = tar.arg("--file").arg(self.dist.join(name));
        let tar = tar.arg("--directory").arg(self.home.path());
        tar.run().await?.success()?;
        let version = self.program(&self.llsd()).arg("--version");
        let version = version.run().await?.success()?;
        ensure!(
            version.trim() == format!("llsd {}", self.version),
            "the binary says {version:?}"
        );
        Ok(())
    }

    fn sample(&self) -> PathBuf {
        let llsd = self.llsd();
        let root = llsd.ancestors().nth(2).unwrap_or(&llsd);
        root.join("samples/minimal.yaml")
    }

    /// Installs `install.yaml`. No container runs on this control plane: the node is simulated.
    async fn install_manifests(&self, testbed: &Testbed) -> Result<()> {
        say("==> install.yaml");
        let file = self.dist.join("install.yaml");
        let apply = testbed.kubectl("admin")?.args(["apply", "--server-side"]);
        let apply = apply.arg("--filename").arg(&file);
        apply.run().await?.success()?;
        let image = "{.spec.template.spec.containers[0].image}";
        let output = format!("--output=jsonpath={image}");
        let get = ["get", "deployment", "llsd-operator", &output];
        let get = testbed.kubectl("admin")?.args(get).namespace(NAMESPACE);
        let image = get.run().await?.success()?;
        let name = format!("llsd:{}", self.version);
        let digest = self.artifacts.iter().find(|(one, _)| *one == name);
        let (_, digest) = digest.context("the release has no image")?;
        ensure!(
            image == format!("{}/llsd@{digest}", self.registry),
            "install.yaml names the image {image}"
        );
        rollout(testbed).await
    }

    /// Installs the chart from the registry.
    async fn install_chart(&self, testbed: &Testbed) -> Result<()> {
        say("==> chart");
        let kubeconfig = testbed.kubeconfig("admin")?;
        let helm = self.program(&self.helm).env("KUBECONFIG", &kubeconfig);
        let chart = format!("oci://{}/charts/llsd", self.registry);
        let mut install = helm.args(["install", "llsd", &chart, "--version", &self.version]);
        install = install.arg("--create-namespace").namespace(NAMESPACE);
        if is_loopback(&self.registry) {
            install = install.arg("--plain-http");
        }
        install.run().await?.success()?;
        rollout(testbed).await
    }

    /// Runs the operator with the binary from the archive: a server becomes ready, and an adapter from the
    /// registry is loaded.
    async fn run_operator(&self, testbed: &Testbed) -> Result<()> {
        say("==> operator, with an adapter from the registry");
        let _operator = self.start_operator(testbed)?;
        let list = "get llamastackdistributions.v1alpha2.llamastack.io --all-namespaces";
        until("resources are served", DEADLINE, || kubectl(testbed, list)).await?;
        let apply = testbed.kubectl("admin")?.args(["apply", "--filename"]);
        apply.arg(self.sample()).run().await?.success()?;
        kubectl(
            testbed,
            "wait llsd/minimal --for=condition=Ready --timeout=100s",
        )
        .await?;
        let plugin = json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "SchemaPlugin",
            "metadata": { "name": "released" },
            "spec": self.plugin_spec()?,
        });
        let apply = testbed.kubectl("admin")?.args(["apply", "--filename=-"]);
        let applied = apply.input(plugin.to_string()).run().await?;
        applied.success()?;
        let wait = "wait schemaplugin/released --for=condition=Ready --timeout=100s";
        kubectl(testbed, wait).await?;
        Ok(())
    }

    fn start_operator(&self, testbed: &Testbed) -> Result<Child> {
        let log = self.home.path().join("operator.log");
        let mut operator = Command::new(self.llsd());
        operator
            .args(["operator", "--dev"])
            .env("HOME", self.home.path())
            .env("XDG_CACHE_HOME", self.home.path().join("cache"))
            .env("KUBECONFIG", testbed.kubeconfig("admin")?)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(log)?)
            .kill_on_drop(true);
        if is_loopback(&self.registry) {
            let host = self.registry.split('/').next().unwrap_or_default();
            operator.env("LLSD_PLAIN_HTTP", host);
            operator.env("LLSD_ALLOW_ADDRESS", host);
        }
        operator.spawn().context("failed to start the operator")
    }

    /// A `SchemaPlugin` that demands the signature, if the release is signed.
    fn plugin_spec(&self) -> Result<Value> {
        let reference = format!("{}/{ADAPTER}:{}", self.registry, self.version);
        let mut spec = json!({ "reference": reference });
        if let Some(key) = &self.key {
            let key = std::fs::read_to_string(key)
                .with_context(|| format!("failed to read {}", key.display()))?;
            spec["verify"] = json!({ "level": "enforce", "keys": [key] });
        }
        Ok(spec)
    }
}

/// Waits until the replicas of the operator are ready.
async fn rollout(testbed: &Testbed) -> Result<()> {
    let status = [
        "rollout",
        "status",
        "deployment/llsd-operator",
        "--timeout=100s",
    ];
    let status = testbed.kubectl("admin")?.args(status).namespace(NAMESPACE);
    status.run().await?.success()?;
    Ok(())
}

async fn kubectl(testbed: &Testbed, line: &str) -> Result<String> {
    let kubectl = testbed.kubectl("admin")?.args(line.split(' '));
    kubectl.run().await?.success()
}

/// Name and digest of every artifact in the layout of a release.
fn artifacts(dist: &Path) -> Result<Vec<(String, String)>> {
    let path = dist.join("oci/index.json");
    let text =
        std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let index: Value = serde_json::from_slice(&text)?;
    let pair = |entry: &Value| {
        let name = entry["annotations"]["org.opencontainers.image.ref.name"].as_str()?;
        Some((name.to_owned(), entry["digest"].as_str()?.to_owned()))
    };
    let entries = index["manifests"].as_array().into_iter().flatten();
    Ok(entries.filter_map(pair).collect())
}

/// Registries on this machine, for tests, use plain HTTP.
fn is_loopback(registry: &str) -> bool {
    let host = registry.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1")
}

#[expect(clippy::print_stderr, reason = "progress and errors of a program")]
fn say(line: &str) {
    eprintln!("{line}");
}

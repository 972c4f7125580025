//! The artifacts of a release, checked with stock tools.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use llsd_testbed::Invocation;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use serde_json::Value;
use tempfile::TempDir;

use crate::say;

/// Someone who has the artifacts, the stock tools and an empty home folder.
pub(crate) struct User {
    home: TempDir,
    dist: PathBuf,
    /// The registry of the release, with its path.
    pub(crate) registry: String,
    /// The public key of the release.
    pub(crate) key: Option<PathBuf>,
    cosign: PathBuf,
    crane: PathBuf,
    helm: PathBuf,
    /// Name, such as `charts/llsd:0.1.0`, and digest of every artifact.
    pub(crate) artifacts: Vec<(String, String)>,
    /// The version of the release.
    pub(crate) version: String,
}

impl User {
    pub(crate) fn new(
        dist: PathBuf,
        registry: &str,
        cosign: PathBuf,
        key: Option<PathBuf>,
    ) -> Result<Self> {
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
    pub(crate) fn program(&self, program: &Path) -> Invocation {
        let home = self.home.path();
        Invocation::new(program)
            .env("HOME", home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("DOCKER_CONFIG", home)
    }

    /// Helm.
    pub(crate) fn helm(&self) -> Invocation {
        self.program(&self.helm)
    }

    /// crane, which copies artifacts.
    pub(crate) fn crane(&self) -> Invocation {
        self.program(&self.crane)
    }

    /// The command line, from its archive.
    pub(crate) fn llsd(&self) -> Invocation {
        self.program(&self.unpacked().join("bin/llsd"))
    }

    /// `install.yaml`.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.dist.join("install.yaml")
    }

    /// The smallest sample, from the archive.
    pub(crate) fn sample(&self) -> PathBuf {
        self.unpacked().join("samples/minimal.yaml")
    }

    /// A component, from the archive.
    pub(crate) fn component(&self, plugin: &str) -> PathBuf {
        self.unpacked().join(format!("plugins/{plugin}.wasm"))
    }

    /// A file in the home folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn unpacked(&self) -> PathBuf {
        self.home.path().join(self.archive())
    }

    fn archive(&self) -> String {
        let architecture = std::env::consts::ARCH;
        format!("llsd-{}-{architecture}-unknown-linux-musl", self.version)
    }

    /// Compares every file with its checksum, and the checksums with their signature.
    pub(crate) async fn check_files(&self) -> Result<()> {
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
    pub(crate) async fn check_registry(&self) -> Result<()> {
        say(&format!("==> artifacts in {}", self.registry));
        for (name, digest) in &self.artifacts {
            let reference = format!("{}/{name}", self.registry);
            let crane = self.crane().args(["digest", &reference]);
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

    /// Unpacks the archive of the command line, and generates the configuration of a sample with it.
    pub(crate) async fn unpack(&self) -> Result<()> {
        say("==> command line");
        let tar = self.program(Path::new("tar")).arg("--extract");
        let archive = self.dist.join(format!("{}.tar.gz", self.archive()));
        let tar = tar.arg("--file").arg(archive);
        let tar = tar.arg("--directory").arg(self.home.path());
        tar.run().await?.success()?;
        let version = self.llsd().arg("--version").run().await?.success()?;
        ensure!(
            version.trim() == format!("llsd {}", self.version),
            "the binary says {version:?}"
        );
        let render = self.llsd().args(["render", "-f"]).arg(self.sample());
        let config = render.run().await?.success()?;
        ensure!(
            config.contains("base_url: http://vllm:8000/v1"),
            "the configuration of the sample has no provider: {config}"
        );
        Ok(())
    }

    /// The digest of an artifact, such as `llsd`.
    pub(crate) fn digest(&self, repository: &str) -> Result<&str> {
        let name = format!("{repository}:{}", self.version);
        let found = self.artifacts.iter().find(|(one, _)| *one == name);
        let (_, digest) = found.with_context(|| format!("the release has no {repository}"))?;
        Ok(digest)
    }

    /// Whether the registry is on this machine, where it serves plain HTTP.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        matches!(name, "localhost" | "127.0.0.1")
    }

    /// The host and the port of the registry.
    pub(crate) fn host(&self) -> &str {
        let (host, _) = self
            .registry
            .split_once('/')
            .unwrap_or((&self.registry, ""));
        host
    }

    /// The path of the release in its registry.
    pub(crate) fn path(&self) -> &str {
        let (_, path) = self.registry.split_once('/').unwrap_or_default();
        path
    }
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

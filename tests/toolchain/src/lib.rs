//! The Go programs that tests start, built once into a cache outside the checkout.
//!
//! In: the small Go modules under `go/`, whose `go.sum` pins every dependency. Out: paths of
//! binaries. The cache key is the hash of a module's files, so a changed version is built anew and
//! an old checkout finds its own build. Only `go build` runs; nothing is installed elsewhere.

mod build;

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

pub use build::ensure_built;

/// A Kubernetes release that tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The newest supported release: the whole control plane, with a simulated node.
    Newest,
    /// The oldest supported release, which the newest API server emulates: only the API server and
    /// etcd. The controller manager must not be newer than the API server, so controllers run on the
    /// newest release only.
    Oldest,
}

impl Release {
    /// The release that the API server emulates. `None` if it is its own.
    pub fn emulated(self) -> Option<&'static str> {
        match self {
            Self::Newest => None,
            Self::Oldest => Some("1.33"),
        }
    }
}

/// A program that the testbed can build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the program of that name, in `go/` if it is ours"
)]
pub enum Tool {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    Kubelet,
    KubeProxy,
    Coredns,
    Kwok,
    Registry,
    Crane,
    Helm,
    Health,
    Actionlint,
    Cosign,
    Mongodb,
    OlmBundle,
}

impl Tool {
    /// Every tool. The order lets builds share the most compiled packages.
    pub const ALL: [Self; 17] = [
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Etcd,
        Self::Kubectl,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Kwok,
        Self::Crane,
        Self::Registry,
        Self::Helm,
        Self::Health,
        Self::Coredns,
        Self::Actionlint,
        Self::Cosign,
        Self::Mongodb,
        Self::OlmBundle,
    ];

    /// The tools that a node needs in addition to its control plane.
    pub const OF_NODE: [Self; 5] = [
        Self::Kubelet,
        Self::KubeProxy,
        Self::Coredns,
        Self::Registry,
        Self::Crane,
    ];

    /// The tools that a control plane of a release needs.
    pub fn of_control_plane(release: Release) -> &'static [Self] {
        match release {
            Release::Newest => &[
                Self::KubeApiserver,
                Self::KubeControllerManager,
                Self::KubeScheduler,
                Self::Etcd,
                Self::Kubectl,
                Self::Kwok,
            ],
            Release::Oldest => &[Self::KubeApiserver, Self::Etcd, Self::Kubectl],
        }
    }

    /// The file name of the binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Coredns => "coredns",
            Self::Kwok => "kwok",
            Self::Registry => "registry",
            Self::Crane => "crane",
            Self::Helm => "helm",
            Self::Health => "health",
            Self::Actionlint => "actionlint",
            Self::Cosign => "cosign",
            Self::Mongodb => "mongodb",
            Self::OlmBundle => "olm-bundle",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Coredns => "llsd.io/testbed/programs/coredns",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Registry => "llsd.io/testbed/programs/registry",
            Self::Crane => "github.com/google/go-containerregistry/cmd/crane",
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
            Self::Health => "llsd.io/testbed/programs/health",
            Self::Actionlint => "github.com/rhysd/actionlint/cmd/actionlint",
            Self::Cosign => "llsd.io/testbed/programs/cosign",
            Self::Mongodb => "llsd.io/testbed/programs/mongodb",
            Self::OlmBundle => "llsd.io/testbed/programs/olm-bundle",
        }
    }

    /// The Go module whose version is the tool's version.
    fn versioned_by(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            Self::Coredns => "github.com/coredns/coredns",
            Self::Registry => "github.com/distribution/distribution/v3",
            Self::Crane => "github.com/google/go-containerregistry",
            Self::Helm => "helm.sh/helm/v4",
            Self::Health => "github.com/fluxcd/cli-utils",
            Self::Actionlint => "github.com/rhysd/actionlint",
            Self::Cosign => "github.com/sigstore/cosign/v3",
            Self::Mongodb => "github.com/FerretDB/FerretDB",
            Self::OlmBundle => "github.com/operator-framework/api",
            _ => "k8s.io/kubernetes",
        }
    }

    /// The expected build time on two idle cores, after the tools before it.
    fn usual_build(self) -> &'static str {
        match self {
            Self::KubeApiserver => "about 5 minutes",
            Self::Cosign => "about 2 minutes",
            Self::KubeControllerManager => "about 1 minute",
            _ => "less than 1 minute",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The cache folder: `$LLSD_CACHE`, `$XDG_CACHE_HOME/llsd` or `~/.cache/llsd`.
pub fn cache_dir() -> Result<PathBuf> {
    let given = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    given("LLSD_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|dir| dir.join("llsd")))
        .or_else(|| given("HOME").map(|dir| dir.join(".cache/llsd")))
        .context("the cache folder is unknown; set LLSD_CACHE or HOME")
}

/// The version of a tool that its Go module pins, such as `v1.36.3`.
pub fn version(tool: Tool) -> Result<String> {
    let file = module_dir().join("go.mod");
    let text = read(&file)?;
    let name = tool.versioned_by();
    text.lines()
        .filter_map(|line| {
            line.trim_start()
                .trim_start_matches("require ")
                .strip_prefix(name)
        })
        .find_map(|rest| rest.strip_prefix(' ')?.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("{} does not require {name}", file.display()))
}

/// The path of a tool, if it is in the cache or in `KUBEBUILDER_ASSETS`.
pub fn locate(cache: &Path, tool: Tool) -> Result<Option<PathBuf>> {
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let binary = Path::new(&assets).join(tool.name());
        if binary.is_file() {
            return Ok(Some(binary));
        }
    }
    let binary = built_path(cache, tool)?;
    Ok(binary.is_file().then_some(binary))
}

fn built_path(cache: &Path, tool: Tool) -> Result<PathBuf> {
    let mut files = Vec::new();
    add_files(&module_dir(), &mut files).context("the Go module was not found in the checkout")?;
    files.sort();
    ensure!(
        files.iter().any(|f| f.ends_with("go.sum")),
        "the Go module has no go.sum"
    );
    let mut hash = Sha256::new();
    for file in &files {
        hash.update(read(file)?.as_bytes());
    }
    let digest = HEXLOWER.encode(&hash.finalize()[..6]);
    Ok(cache
        .join("testbed")
        .join(format!("programs-{digest}"))
        .join(tool.name()))
}

/// Adds the files of a folder and of its subfolders.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// A name for something of which several exist, such as the node of a folder.
pub fn short_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..4])
}

/// The folder with the files of a Go module, at the version that a module under `go/` pins.
pub fn module_folder(pinned_by: &str, module: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("go")
        .join(pinned_by);
    let output = Command::new("go")
        .current_dir(folder)
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .args(["mod", "download", "-json", module])
        .output()
        .context("failed to run go; install Go 1.26 or newer")?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let folder = answer["Dir"].as_str();
    folder
        .map(PathBuf::from)
        .with_context(|| format!("failed to download {module}: {}", answer["Error"]))
}

/// The module that pins the versions of all tools. They share it, so that each dependency has one version
/// and is compiled once.
fn module_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("go/programs")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Writes to stderr directly, because the test harness captures `eprintln!`.
pub fn print_progress(line: &str) {
    // A failed write must not stop the build.
    let _ = writeln!(std::io::stderr(), "testbed: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_pins_the_version_of_its_tools() {
        for tool in Tool::ALL {
            let version = version(tool).unwrap();
            assert!(
                version.starts_with('v') && version.split('.').count() == 3,
                "{tool} {version}"
            );
        }
    }

    #[test]
    fn tools_share_a_folder_of_the_cache() {
        let path = |tool| built_path(Path::new("/cache"), tool).unwrap();
        let etcd = path(Tool::Etcd);
        assert!(etcd.starts_with("/cache/testbed"));
        assert_eq!(path(Tool::Kubectl), etcd.with_file_name("kubectl"));
    }
}

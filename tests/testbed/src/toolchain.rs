//! Builds the Go programs that tests start, once, into a cache outside the checkout.
//!
//! In: the small Go modules under `go/`, whose `go.sum` pins every byte. Out: paths of binaries.
//! The cache key is the hash of a module's files, so a changed pin is a new build and an old
//! checkout finds its own. Only `go build` runs here; nothing is installed anywhere else.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// A Kubernetes release that tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The newest release that builds: the whole control plane with a simulated node.
    Newest,
    /// The oldest release supported: API server and etcd alone. A controller manager may not be
    /// newer than its API server, so controllers are tested on the newest release only.
    Oldest,
}

/// A program that the testbed can build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the program of that name")]
pub enum Tool {
    Etcd,
    KubeApiserver(Release),
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    Kwok,
    Registry,
    Crane,
    Helm,
}

impl Tool {
    /// Every tool, in the order in which building shares most work.
    pub const ALL: [Self; 10] = [
        Self::KubeApiserver(Release::Newest),
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Etcd,
        Self::Kubectl,
        Self::KubeApiserver(Release::Oldest),
        Self::Kwok,
        Self::Crane,
        Self::Registry,
        Self::Helm,
    ];

    /// What `control-plane up` needs for one release.
    pub fn of_control_plane(release: Release) -> &'static [Self] {
        match release {
            Release::Newest => &[
                Self::KubeApiserver(Release::Newest),
                Self::KubeControllerManager,
                Self::KubeScheduler,
                Self::Etcd,
                Self::Kubectl,
                Self::Kwok,
            ],
            Release::Oldest => &[
                Self::KubeApiserver(Release::Oldest),
                Self::Etcd,
                Self::Kubectl,
            ],
        }
    }

    /// The file name of the binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver(_) => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Registry => "registry",
            Self::Crane => "crane",
            Self::Helm => "helm",
        }
    }

    /// The folder under `go/` that pins it.
    fn module(self) -> &'static str {
        match self {
            Self::KubeApiserver(Release::Oldest) => "kubernetes-1.33",
            Self::Kwok => "kwok",
            Self::Registry | Self::Crane => "registry",
            Self::Helm => "helm",
            _ => "kubernetes",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver(_) => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Registry => "llsd.io/testbed/registry",
            Self::Crane => "github.com/google/go-containerregistry/cmd/crane",
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
        }
    }

    /// The Go module whose version is the tool's version.
    fn versioned_by(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            Self::Registry => "github.com/distribution/distribution/v3",
            Self::Crane => "github.com/google/go-containerregistry",
            Self::Helm => "helm.sh/helm/v4",
            _ => "k8s.io/kubernetes",
        }
    }

    /// A rough figure for two idle cores with nothing cached; a busy machine takes several times that.
    fn usual_build(self) -> &'static str {
        match self {
            Self::KubeApiserver(_) => "about 5 minutes",
            Self::KubeControllerManager | Self::Kwok | Self::Helm => "about 1 minute",
            _ => "less than 1 minute",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where everything is cached: `$LLSD_CACHE`, `$XDG_CACHE_HOME/llsd` or `~/.cache/llsd`.
pub fn cache_dir() -> Result<PathBuf> {
    let given = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    given("LLSD_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|dir| dir.join("llsd")))
        .or_else(|| given("HOME").map(|dir| dir.join(".cache/llsd")))
        .context("there is no folder for the cache; set LLSD_CACHE or HOME")
}

/// The version of a tool as its module pins it, such as `v1.36.3`.
pub fn version(tool: Tool) -> Result<String> {
    let file = module_dir(tool).join("go.mod");
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

/// Where a tool is, if it has been built or is among `KUBEBUILDER_ASSETS`.
pub fn locate(cache: &Path, tool: Tool) -> Result<Option<PathBuf>> {
    // The assets are one release, the one the whole control plane runs with.
    if tool != Tool::KubeApiserver(Release::Oldest)
        && let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS")
    {
        let binary = Path::new(&assets).join(tool.name());
        if binary.is_file() {
            return Ok(Some(binary));
        }
    }
    let binary = built_path(cache, tool)?;
    Ok(binary.is_file().then_some(binary))
}

/// The binaries of `tools`, in that order; builds those that are missing and says so on stderr.
pub fn ensure_built(cache: &Path, tools: &[Tool]) -> Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    for tool in tools {
        if locate(cache, *tool)?.is_none() {
            missing.push(*tool);
        }
    }
    for (index, tool) in missing.iter().enumerate() {
        let position = format!("{} of {}", index + 1, missing.len());
        build(cache, *tool, &position).with_context(|| format!("could not build {tool}"))?;
    }
    tools
        .iter()
        .map(|tool| locate(cache, *tool)?.with_context(|| format!("{tool} was not built")))
        .collect()
}

fn build(cache: &Path, tool: Tool, position: &str) -> Result<()> {
    let binary = built_path(cache, tool)?;
    let folder = binary.parent().context("the cache has no parent folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;

    // Two test processes may want the same tool: the second waits and finds it built.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;
    if binary.is_file() {
        return Ok(());
    }

    let version = version(tool)?;
    say(&format!(
        "building {tool} {version} ({position}), {}",
        tool.usual_build()
    ));
    let started = Instant::now();
    let log_path = folder.join(format!("{tool}.log"));
    let log = File::create(&log_path)?;
    let unfinished = folder.join(format!("{tool}.unfinished"));
    let mut child = Command::new("go")
        .current_dir(module_dir(tool))
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .args([
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
        ])
        .arg(linker_flags(tool, &version))
        .arg("-o")
        .arg(&unfinished)
        .arg(tool.package())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context(
            "cannot run go; install Go 1.26 or newer, or point KUBEBUILDER_ASSETS at a folder \
             that has the binaries",
        )?;
    let mut next_sign_of_life = Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(200));
        if started.elapsed() > next_sign_of_life {
            say(&format!(
                "still building {tool} ({} min)",
                started.elapsed().as_secs() / 60
            ));
            next_sign_of_life += Duration::from_secs(60);
        }
    };
    if !status.success() {
        let log = read(&log_path)?;
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("go build ended with {status}:\n{}", tail.join("\n"));
    }
    fs::rename(&unfinished, &binary)?;
    fs::remove_file(&log_path)?;
    say(&format!(
        "built {tool} {version} in {} s",
        started.elapsed().as_secs()
    ));
    Ok(())
}

/// Without its version a Kubernetes component calls itself `v0.0.0-master`, which clients refuse.
fn linker_flags(tool: Tool, version: &str) -> String {
    let mut flags = String::from("-s -w");
    if tool.versioned_by() == "k8s.io/kubernetes" {
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("0"));
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
        ] {
            flags.push_str(&format!(" -X k8s.io/component-base/version.{name}={value}"));
        }
    }
    flags
}

fn built_path(cache: &Path, tool: Tool) -> Result<PathBuf> {
    let module = tool.module();
    let mut files: Vec<PathBuf> = fs::read_dir(module_dir(tool))
        .with_context(|| format!("the Go module {module} is not in the checkout"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    ensure!(
        files.iter().any(|f| f.ends_with("go.sum")),
        "the Go module {module} has no go.sum"
    );
    let mut hash = Sha256::new();
    for file in &files {
        hash.update(read(file)?.as_bytes());
    }
    let digest = HEXLOWER.encode(&hash.finalize()[..6]);
    Ok(cache
        .join("testbed")
        .join(format!("{module}-{digest}"))
        .join(tool.name()))
}

fn module_dir(tool: Tool) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("go")
        .join(tool.module())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Progress goes straight to stderr, because the test harness captures what `eprintln!` prints.
pub(crate) fn say(line: &str) {
    // Progress that cannot be shown is no reason to stop.
    let _ = writeln!(std::io::stderr(), "testbed: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_version_that_its_module_pins() {
        for tool in Tool::ALL {
            let version = version(tool).unwrap();
            assert!(
                version.starts_with('v') && version.split('.').count() == 3,
                "{tool} {version}"
            );
        }
    }

    #[test]
    fn the_two_releases_are_different_kubernetes_minors() {
        let minor = |release| {
            let version = version(Tool::KubeApiserver(release)).unwrap();
            version.split('.').nth(1).unwrap().parse::<u32>().unwrap()
        };
        assert_eq!(minor(Release::Oldest), 33);
        assert!(minor(Release::Newest) > 33);
    }

    #[test]
    fn a_kubernetes_component_is_told_its_version() {
        assert_eq!(
            linker_flags(Tool::Kubectl, "v1.36.3"),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36"
        );
        assert_eq!(linker_flags(Tool::Crane, "v0.22.1"), "-s -w");
    }

    #[test]
    fn tools_of_one_module_share_a_folder_and_others_do_not() {
        let cache = Path::new("/cache");
        let folder = |tool| {
            built_path(cache, tool)
                .unwrap()
                .parent()
                .unwrap()
                .to_owned()
        };
        assert_eq!(folder(Tool::Etcd), folder(Tool::Kubectl));
        assert_ne!(
            folder(Tool::Etcd),
            folder(Tool::KubeApiserver(Release::Oldest))
        );
        assert!(folder(Tool::Etcd).starts_with("/cache/testbed"));
    }
}

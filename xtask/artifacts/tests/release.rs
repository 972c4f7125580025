//! The artifacts of `cargo xtask release`, with a small file instead of the static binary.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use llsd_testbed::{Registry, RegistryOptions};
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn program(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable);
    value
        .unwrap_or_else(|| panic!("{variable} is not set; run `cargo xtask test`"))
        .into()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output
}

/// A release in a folder, which a registry has, too.
struct Release {
    folder: TempDir,
    table: String,
    prefix: String,
}

impl Release {
    /// Makes a release, pushes it to the registry, and signs it with a new key.
    fn make(registry: &Registry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prefix = format!("{}/releases", registry.host());
        let mut release = Self {
            folder,
            table: String::new(),
            prefix,
        };
        release.cosign(&["generate-key-pair"]);
        let binary = release.folder.path().join("binary");
        std::fs::write(&binary, b"\x7fELF program").unwrap();
        let mut command = release.command(Path::new(env!("CARGO_BIN_EXE_xtask-artifacts")));
        command.arg("release");
        for target in ["x86_64", "aarch64"] {
            let value = format!("{target}-unknown-linux-musl={}", binary.display());
            command.args(["--binary", &value]);
        }
        let options = [
            ("--llsd", program("LLSD_BIN")),
            ("--plugins", program("LLSD_PLUGINS")),
            ("--kubectl", program("LLSD_KUBECTL_BIN")),
            ("--crane", program("LLSD_CRANE_BIN")),
            ("--cosign", program("LLSD_COSIGN_BIN")),
            ("--output", release.path("")),
            ("--sign", release.folder.path().join("cosign.key")),
        ];
        for (option, value) in options {
            command.arg(option).arg(value);
        }
        command.args(["--registry", &release.prefix]);
        release.table = String::from_utf8(run(&mut command).stdout).unwrap();
        release
    }

    /// A file of the release.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("dist").join(name)
    }

    /// A command in the folder of this release, with the empty password of its key.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        // The cache of compiled components stays that of the user.
        let cache = std::env::var_os("LLSD_CACHE").unwrap_or_default();
        command.env("COSIGN_PASSWORD", "").env("LLSD_CACHE", cache);
        command.env("DOCKER_CONFIG", self.folder.path());
        command
    }

    fn cosign(&self, arguments: &[&str]) -> String {
        let output = run(self.command(&program("LLSD_COSIGN_BIN")).args(arguments));
        String::from_utf8(output.stdout).unwrap()
    }

    fn crane(&self, arguments: &[&str]) -> String {
        let output = run(self.command(&program("LLSD_CRANE_BIN")).args(arguments));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A document of the layout.
    fn json(&self, digest: &str) -> Value {
        let blob = self.path("oci/blobs").join(digest.replace(':', "/"));
        serde_json::from_slice(&std::fs::read(blob).unwrap()).unwrap()
    }

    /// The digest of an artifact in the table.
    fn digest(&self, name: &str) -> &str {
        let row = self.table.lines().find(|line| {
            let first = line.split_whitespace().next();
            first == Some(name)
        });
        let row = row.unwrap_or_else(|| panic!("no {name}:\n{}", self.table));
        row.split_whitespace().last().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_complete_reproducible_and_verified_with_stock_tools() {
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    let release = Release::make(&registry);
    assert_eq!(release.table, Release::make(&registry).table);
    files_are_complete(&release);
    the_layout_is_complete(&release);
    the_index_is_complete(&release);
    the_archive_is_complete(&release);
    the_registry_has_it(&release);
}

fn files_are_complete(release: &Release) {
    for name in [
        format!("llsd-{VERSION}-x86_64-unknown-linux-musl.tar.gz"),
        format!("llsd-{VERSION}-aarch64-unknown-linux-musl.tar.gz"),
        format!("llsd-sdk-{VERSION}.tar.gz"),
        format!("llsd-chart-{VERSION}.tgz"),
        format!("llsd-{VERSION}.cdx.json"),
        "artifacts.json".to_owned(),
        "SHA256SUMS".to_owned(),
    ] {
        assert!(release.path(&name).is_file(), "{name}");
    }
    // The checksums are those of the files, as the stock tool computes them.
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]);
    run(sums.current_dir(release.path("")));
    let install = std::fs::read_to_string(release.path("install.yaml")).unwrap();
    let digest = release.digest(&format!("llsd:{VERSION}"));
    let image = format!("image: {}/llsd@{digest}\n", release.prefix);
    assert!(install.contains(&image), "{image}");
}

/// Every artifact has provenance; images and plugins have an SBOM, and plugins a report of the conformance
/// suite.
fn the_layout_is_complete(release: &Release) {
    let image = release.json(release.digest(&format!("llsd:{VERSION}")));
    assert_eq!(image["manifests"].as_array().unwrap().len(), 2);
    let index = std::fs::read(release.path("oci/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let mut documents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in index["manifests"].as_array().unwrap() {
        let manifest = release.json(entry["digest"].as_str().unwrap());
        if let Some(subject) = manifest["subject"]["digest"].as_str() {
            let kind = manifest["artifactType"].as_str().unwrap().to_owned();
            documents.entry(subject.to_owned()).or_default().push(kind);
        }
    }
    let of = |name: &str| {
        let mut kinds = documents[release.digest(&format!("{name}:{VERSION}"))].clone();
        kinds.sort();
        kinds
    };
    let (sbom, statement) = (
        "application/vnd.cyclonedx+json",
        "application/vnd.in-toto+json",
    );
    assert_eq!(of("llsd"), [sbom, statement]);
    assert_eq!(of("adapters/llama-stack-0.7"), [sbom, statement, statement]);
    assert_eq!(of("packs/example-pack"), [sbom, statement, statement]);
    assert_eq!(of("charts/llsd"), [statement]);
    assert_eq!(of("llsd-bundle"), [statement]);
}

/// `artifacts.json` says where everything is.
fn the_index_is_complete(release: &Release) {
    let index = std::fs::read(release.path("artifacts.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let artifacts = index["artifacts"].as_array().unwrap();
    let adapter = format!("adapters/llama-stack-0.7:{VERSION}");
    let listed = artifacts.iter().find(|one| one["name"] == *adapter);
    let listed = listed.unwrap_or_else(|| panic!("{index}"));
    assert_eq!(listed["digest"], release.digest(&adapter));
    let schemas = listed["schemas"].as_str().unwrap();
    assert!(schemas.contains("llama-stack/0.7"), "{listed}");
    let documents = listed["documents"].as_array().unwrap().iter();
    let mut types: Vec<&str> = documents.map(|one| one["type"].as_str().unwrap()).collect();
    types.sort_unstable();
    assert_eq!(
        types,
        [
            "application/vnd.cyclonedx+json",
            "https://llamastack.io/attestations/conformance/v1",
            "https://slsa.dev/provenance/v1",
        ]
    );
}

fn the_archive_is_complete(release: &Release) {
    let name = format!("llsd-{VERSION}-x86_64-unknown-linux-musl");
    let file = std::fs::File::open(release.path(&format!("{name}.tar.gz"))).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let paths: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    for path in [
        "bin/llsd",
        "bin/kubectl-llsd",
        "completions/llsd.bash",
        "man/llsd.1",
        "LICENSE",
        "THIRD-PARTY-LICENSES.txt",
        "llsd.cdx.json",
        "deploy/kustomize/default/kustomization.yaml",
        "samples/minimal.yaml",
    ] {
        assert!(paths.contains(&format!("{name}/{path}")), "{path}");
    }
}

fn the_registry_has_it(release: &Release) {
    let prefix = &release.prefix;
    let verify = ["--key", "cosign.pub", "--insecure-ignore-tlog"];
    for name in [
        "llsd",
        "charts/llsd",
        "llsd-bundle",
        "adapters/ogx",
        "adapters/example-adapter",
        "packs/example-pack",
    ] {
        let reference = format!("{prefix}/{name}:{VERSION}");
        let digest = release.crane(&["digest", &reference]);
        assert_eq!(digest.trim(), release.digest(&format!("{name}:{VERSION}")));
        let command = ["verify", "--allow-http-registry"];
        release.cosign(&[&command[..], &verify, &[&reference]].concat());
    }
    let blob = [
        "--bundle",
        "dist/SHA256SUMS.sigstore.json",
        "dist/SHA256SUMS",
    ];
    release.cosign(&[&["verify-blob"], &verify[..], &blob].concat());
    let config = release.crane(&["config", &format!("{prefix}/llsd:{VERSION}")]);
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");
    // What a catalogue reads first.
    let bundle = release.crane(&["config", &format!("{prefix}/llsd-bundle:{VERSION}")]);
    let bundle: Value = serde_json::from_str(&bundle).unwrap();
    let package = "operators.operatorframework.io.bundle.package.v1";
    assert_eq!(bundle["config"]["Labels"][package], "llsd");
}

//! `cargo xtask package`: creates the release archive, its SBOM, the plugins as OCI artifacts, and checksums.
//!
//! The same commit gives the same archive: entries are sorted, and have no time, owner or mode of the
//! machine that created them.

pub(crate) mod archive;
pub(crate) mod sbom;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use data_encoding::HEXLOWER;
use llsd_oci_layout::ImageLayout;
use sha2::{Digest, Sha256};

use xtask::shell;

use crate::image::source::Source;
use crate::plugin_artifacts::PluginArtifacts;
use crate::release::{REGISTRY, licenses};
use crate::{artifact_index, plugins};
use archive::Entry;

/// Shells with completions in the archive, by the argument of `llsd completions`, and their files.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "llsd.bash"),
    ("zsh", "_llsd"),
    ("fish", "llsd.fish"),
];

/// Directories and files of the checkout that are packed unchanged.
const COPIES: [&str; 7] = [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "deploy/kustomize",
    "deploy/helm",
    "docs",
    "samples",
];

/// The folder of the OCI layout, below that of the package.
const LAYOUT: &str = "oci";
/// The task, as provenance names it.
const TASK: &str = "cargo xtask package";

/// Writes `llsd-<version>-<target>.tar.gz` with `binary`, its SBOM, the plugins as an OCI layout, the list of
/// them, and `SHA256SUMS` to `target/package`.
pub fn run(binary: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        binary.is_file(),
        "the binary {} was not found; build it, or leave out --binary",
        binary.display()
    );
    eprintln!("==> plugins");
    let plugins = plugins::build_all()?;
    let metadata = sbom::metadata()?;
    let version = sbom::version(&metadata)?;
    let name = format!("llsd-{version}-{}", target_triple()?);
    let sbom = sbom::cyclonedx(&metadata, sbom::LLSD)?;

    let contents = Contents {
        binary,
        runnable: binary,
        components: &plugins,
        sbom: &sbom,
        licenses: &licenses::text(&metadata)?,
    };
    let entries = archive::below(&name, contents.entries()?);
    let folder = shell::root().join("target/package");
    let layout = folder.join(LAYOUT);
    if layout.exists() {
        std::fs::remove_dir_all(&layout)?;
    }
    std::fs::create_dir_all(&layout)?;
    let artifacts = PluginArtifacts {
        llsd: binary,
        components: &plugins,
        registry: REGISTRY,
        version: &version,
        metadata: &metadata,
        source: &Source::of_checkout()?,
        task: TASK,
    };
    write_plugins(&artifacts, &layout)?;
    let mut sums = String::new();
    for (file, bytes) in [
        (format!("{name}.tar.gz"), archive::write(&entries)?),
        (format!("{name}.cdx.json"), sbom.into_bytes()),
        (
            artifact_index::FILE.to_owned(),
            artifact_index::write(&layout, LAYOUT)?,
        ),
    ] {
        sums += &format!("{}  {file}\n", HEXLOWER.encode(&Sha256::digest(&bytes)));
        std::fs::write(folder.join(&file), bytes)?;
        eprintln!("    {}", folder.join(file).display());
    }
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// Writes every plugin to an OCI layout, ready to be pushed.
fn write_plugins(artifacts: &PluginArtifacts<'_>, folder: &Path) -> anyhow::Result<()> {
    let mut layout = ImageLayout::create(folder, artifacts.source.time)?;
    for plugin in plugins::all()? {
        let written = artifacts.write(&mut layout, &plugin)?;
        eprintln!("    {}: {}", plugin.name, written.digest);
    }
    layout.finish()
}

/// What an archive of the command line contains.
pub(crate) struct Contents<'a> {
    /// The `llsd` to pack.
    pub(crate) binary: &'a Path,
    /// An `llsd` of the same sources that this machine can run.
    pub(crate) runnable: &'a Path,
    /// The folder of the components.
    pub(crate) components: &'a Path,
    /// The SBOM of the binary.
    pub(crate) sbom: &'a str,
    /// The licences of what is linked into the binary.
    pub(crate) licenses: &'a str,
}

impl Contents<'_> {
    /// The entries of the archive, by path in its top directory.
    pub(crate) fn entries(&self) -> anyhow::Result<BTreeMap<String, Entry>> {
        let Self {
            binary,
            runnable,
            components,
            sbom,
            licenses,
        } = *self;
        let mut entries = BTreeMap::from([
            (
                "bin/llsd".to_owned(),
                Entry::executable(std::fs::read(binary)?),
            ),
            // kubectl runs programs on PATH with this prefix as plugins.
            ("bin/kubectl-llsd".to_owned(), Entry::Link("llsd".into())),
            ("llsd.cdx.json".to_owned(), Entry::file(sbom.as_bytes())),
            (
                "THIRD-PARTY-LICENSES.txt".to_owned(),
                Entry::file(licenses.as_bytes()),
            ),
        ]);
        for (shell, file) in COMPLETIONS {
            let text = output(Command::new(runnable).args(["completions", shell]))?;
            entries.insert(format!("completions/{file}"), Entry::file(&text));
        }
        let pages = tempfile::tempdir()?;
        output(Command::new(runnable).arg("man").arg(pages.path()))?;
        add_folder(&mut entries, pages.path(), "man")?;
        for plugin in plugins::all()? {
            let file = format!("{}.wasm", plugin.name);
            let component = std::fs::read(components.join(&file))
                .with_context(|| format!("failed to read the component {file}"))?;
            entries.insert(format!("plugins/{file}"), Entry::file(&component));
        }
        for path in COPIES {
            let source = shell::root().join(path);
            if source.is_dir() {
                add_folder(&mut entries, &source, path)?;
            } else {
                entries.insert(path.to_owned(), Entry::file(&std::fs::read(source)?));
            }
        }
        Ok(entries)
    }
}

/// Adds all files below `folder`, with `prefix` instead of its path.
pub(crate) fn add_folder(
    entries: &mut BTreeMap<String, Entry>,
    folder: &Path,
    prefix: &str,
) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}/{}", name.to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_folder(entries, &entry.path(), &path)?;
        } else {
            entries.insert(path, Entry::file(&std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("failed to start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The target triple of the host, for which cargo builds.
fn target_triple() -> anyhow::Result<String> {
    let text = String::from_utf8(output(Command::new("rustc").arg("-vV"))?)?;
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    triple
        .map(str::to_owned)
        .context("rustc -vV printed no host")
}

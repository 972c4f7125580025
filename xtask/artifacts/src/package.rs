//! `cargo xtask package`: creates the release archive, its SBOM and its checksums.
//!
//! The same commit gives the same archive: entries are sorted, and have no time, owner or mode of the
//! machine that created them.

mod archive;
pub(crate) mod sbom;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use xtask::shell;

use crate::plugins;
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

/// Writes `llsd-<version>-<target>.tar.gz` with `binary`, its SBOM and `SHA256SUMS` to
/// `target/package`.
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
    let sbom = sbom::cyclonedx(&metadata)?;

    let entries = entries(binary, &plugins, &sbom)?;
    let entries: BTreeMap<String, Entry> = entries
        .into_iter()
        .map(|(path, entry)| (format!("{name}/{path}"), entry))
        .collect();
    let folder = shell::root().join("target/package");
    std::fs::create_dir_all(&folder)?;
    let mut sums = String::new();
    for (file, bytes) in [
        (format!("{name}.tar.gz"), archive::write(&entries)?),
        (format!("{name}.cdx.json"), sbom.into_bytes()),
    ] {
        sums += &format!("{}  {file}\n", HEXLOWER.encode(&Sha256::digest(&bytes)));
        std::fs::write(folder.join(&file), bytes)?;
        eprintln!("    {}", folder.join(file).display());
    }
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// The entries of the archive, by path in its top directory.
fn entries(
    binary: &Path,
    components: &Path,
    sbom: &str,
) -> anyhow::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::from([
        (
            "bin/llsd".to_owned(),
            Entry::executable(std::fs::read(binary)?),
        ),
        // kubectl runs programs on PATH with this prefix as plugins.
        ("bin/kubectl-llsd".to_owned(), Entry::Link("llsd".into())),
        ("llsd.cdx.json".to_owned(), Entry::file(sbom.as_bytes())),
    ]);
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(binary).args(["completions", shell]))?;
        entries.insert(format!("completions/{file}"), Entry::file(&text));
    }
    let pages = tempfile::tempdir()?;
    output(Command::new(binary).arg("man").arg(pages.path()))?;
    add_folder(&mut entries, pages.path(), "man")?;
    for name in plugins::names()? {
        let file = format!("{name}.wasm");
        let component = std::fs::read(components.join(&file))?;
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

fn add_folder(
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

fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
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

//! `cargo xtask package`: the release archive, with its checksum and a list of what went into it.
//!
//! The same commit gives the same archive: entries are sorted and carry no time, owner or mode of the
//! machine that made them.

mod archive;
mod sbom;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use xtask::shell;

use crate::guests;
use archive::Entry;

/// Shells that completions are packed for, as `llsd completions` names them, and the files' names.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "llsd.bash"),
    ("zsh", "_llsd"),
    ("fish", "llsd.fish"),
];

/// Folders and files of the checkout that are packed as they are.
const AS_THEY_ARE: [&str; 7] = [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "deploy/kustomize",
    "deploy/helm",
    "docs",
    "samples",
];

/// Packs `binary` with everything else, and leaves `llsd-<version>-<target>.tar.gz`, its SBOM and
/// `SHA256SUMS` in `target/package`.
pub fn run(binary: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        binary.is_file(),
        "the binary {} was not found; build it, or leave out --binary",
        binary.display()
    );
    eprintln!("==> adapters as components");
    let plugins = guests::build_all()?;
    let metadata = sbom::metadata()?;
    let version = sbom::version(&metadata)?;
    let name = format!("llsd-{version}-{}", target_triple()?);
    let bill = sbom::cyclonedx(&metadata)?;

    let entries = entries(binary, &plugins, &bill)?;
    let entries: BTreeMap<String, Entry> = entries
        .into_iter()
        .map(|(path, entry)| (format!("{name}/{path}"), entry))
        .collect();
    let folder = shell::root().join("target/package");
    std::fs::create_dir_all(&folder)?;
    let mut sums = String::new();
    for (file, bytes) in [
        (format!("{name}.tar.gz"), archive::write(&entries)?),
        (format!("{name}.cdx.json"), bill.into_bytes()),
    ] {
        sums += &format!("{}  {file}\n", HEXLOWER.encode(&Sha256::digest(&bytes)));
        std::fs::write(folder.join(&file), bytes)?;
        eprintln!("    {}", folder.join(file).display());
    }
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// Everything in the archive, by path below its one folder.
fn entries(binary: &Path, plugins: &Path, bill: &str) -> anyhow::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::from([
        (
            "bin/llsd".to_owned(),
            Entry::program(std::fs::read(binary)?),
        ),
        // kubectl finds its plugins by their names on PATH.
        ("bin/kubectl-llsd".to_owned(), Entry::Link("llsd".into())),
        ("llsd.cdx.json".to_owned(), Entry::file(bill.as_bytes())),
    ]);
    for (shell, file) in COMPLETIONS {
        let text = output(Command::new(binary).args(["completions", shell]))?;
        entries.insert(format!("completions/{file}"), Entry::file(&text));
    }
    let pages = tempfile::tempdir()?;
    output(Command::new(binary).arg("man").arg(pages.path()))?;
    add_folder(&mut entries, pages.path(), "man")?;
    for name in guests::NAMES {
        let file = format!("{name}.wasm");
        let component = std::fs::read(plugins.join(&file))?;
        entries.insert(format!("plugins/{file}"), Entry::file(&component));
    }
    for path in AS_THEY_ARE {
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
        .with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// What cargo builds for here.
fn target_triple() -> anyhow::Result<String> {
    let text = String::from_utf8(output(Command::new("rustc").arg("-vV"))?)?;
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).context("rustc -vV names no host")
}

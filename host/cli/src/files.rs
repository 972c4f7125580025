//! Reads the files that users pass: resources, base configurations, components.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use llsd_api::KIND;
use serde_json::Value;

/// Reads a text file, or standard input if the path is `-`.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("failed to read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Reads a file.
pub(crate) fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Writes a file at once: a write that fails or is interrupted leaves the file as it was. Keeps the permissions
/// of an existing file, and a link to it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    // A path that does not exist yet is no link.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    replace(&target, content.as_ref())
        .with_context(|| format!("failed to write {}", path.display()))
}

fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    // A device or a pipe cannot be replaced.
    let existing = std::fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|found| !found.is_file()) {
        return std::fs::write(path, content);
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    std::fs::write(temporary, content)?;
    if let Some(existing) = existing {
        std::fs::set_permissions(temporary, existing.permissions())?;
    }
    std::fs::rename(temporary, path)
}

/// Reads every YAML document of a file. Empty documents are skipped.
pub(crate) fn objects(path: &Path) -> anyhow::Result<Vec<Value>> {
    documents(&text(path)?).with_context(|| format!("{} is not valid YAML", path.display()))
}

/// Reads every YAML document of a text. Empty documents are skipped.
pub(crate) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// The YAML files of a folder and of the folders below it, sorted. A file is returned as it is.
pub(crate) fn yaml_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let entries = std::fs::read_dir(path);
    for entry in entries.with_context(|| format!("failed to read {}", path.display()))? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_hidden = name.to_string_lossy().starts_with('.');
        // A link to a folder could lead back.
        if entry.file_type()?.is_dir() && !is_hidden {
            files.extend(yaml_files(&path)?);
        } else if path
            .extension()
            .is_some_and(|kind| kind == "yaml" || kind == "yml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the `LlamaStackDistribution` documents of a file.
pub(crate) fn distributions(path: &Path) -> anyhow::Result<Vec<Value>> {
    resources(path, &[KIND])
}

/// Reads the documents of some kinds in a file.
pub(crate) fn resources(path: &Path, kinds: &[&str]) -> anyhow::Result<Vec<Value>> {
    let (ours, _) = partition(objects(path)?, kinds);
    anyhow::ensure!(
        !ours.is_empty(),
        "{} contains no {}",
        path.display(),
        kinds.join(" and no ")
    );
    Ok(ours)
}

/// Divides the objects of a file into those of some kinds and others. A single object counts as one of
/// them, so that a wrong `kind` is reported.
pub(crate) fn partition(objects: Vec<Value>, kinds: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let several = objects.len() > 1;
    let is_ours = |object: &Value| !several || kinds.iter().any(|kind| object["kind"] == *kind);
    objects.into_iter().partition(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_link_to_a_written_file_stays() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "old")?;
        std::os::unix::fs::symlink(&file, &link)?;
        write(&link, "new")?;
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file)?, "new");
        Ok(())
    }
}

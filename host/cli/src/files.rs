//! Reads the files that users pass: resources, base configurations, components.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
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

/// Reads every YAML document of a file. Empty documents are skipped.
pub(crate) fn objects(path: &Path) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text(path)?)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{} is not valid YAML", path.display()))?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Reads the `LlamaStackDistribution` documents of a file.
pub(crate) fn distributions(path: &Path) -> anyhow::Result<Vec<Value>> {
    let (ours, _) = partition(objects(path)?);
    anyhow::ensure!(
        !ours.is_empty(),
        "{} contains no LlamaStackDistribution",
        path.display()
    );
    Ok(ours)
}

/// Divides the objects of a file into resources and others. A single object counts as a resource, so
/// that a wrong `kind` is reported.
pub(crate) fn partition(objects: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let several = objects.len() > 1;
    let is_ours = |object: &Value| !several || object["kind"] == "LlamaStackDistribution";
    objects.into_iter().partition(is_ours)
}

//! Files that users give: resources and base configurations.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// Text of a file, or of standard input when the path is `-`.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("could not read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

/// Bytes of a file.
pub(crate) fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("could not read {}", path.display()))
}

/// Every YAML document of a file that holds Kubernetes objects.
pub(crate) fn objects(path: &Path) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text(path)?)
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{} is not YAML", path.display()))?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// The `LlamaStackDistribution` documents of a file.
pub(crate) fn distributions(path: &Path) -> anyhow::Result<Vec<Value>> {
    let objects = objects(path)?;
    let several = objects.len() > 1;
    let ours: Vec<Value> = objects
        .into_iter()
        // A file of one object is meant, whatever it says; in a bundle the others are passed over.
        .filter(|object| !several || object["kind"] == "LlamaStackDistribution")
        .collect();
    anyhow::ensure!(
        !ours.is_empty(),
        "{} holds no LlamaStackDistribution",
        path.display()
    );
    Ok(ours)
}

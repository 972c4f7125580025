//! Pushes the artifacts of a layout to a registry with crane, and signs them with cosign.
//!
//! Both are stock tools with the credentials of your docker configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use llsd_oci_layout::REF_NAME;
use serde_json::{Value, json};

use super::dist::{CHECKSUMS, Dist};
use crate::package::output;

/// Signatures are made with a key and are not entered into a transparency log.
const OFFLINE: [&str; 3] = ["--tlog-upload=false", "--use-signing-config=false", "--yes"];

/// A manifest of a layout, and where it is pushed to.
#[derive(Debug, PartialEq, Eq)]
struct Upload {
    /// The entry in the index of the layout.
    entry: Value,
    /// `repository:tag`, or `repository@digest` if it has no tag.
    target: String,
}

/// Pushes everything in `layout` to repositories below `registry`.
pub fn push(crane: &Path, layout: &Path, registry: &str) -> anyhow::Result<()> {
    let index = json_file(&layout.join("index.json"))?;
    let manifest = |digest: &str| json_file(&layout.join("blobs").join(digest.replace(':', "/")));
    for Upload { entry, target } in uploads(&index, manifest)? {
        // crane pushes a layout with one entry.
        let single = tempfile::tempdir()?;
        std::os::unix::fs::symlink(
            std::path::absolute(layout.join("blobs"))?,
            single.path().join("blobs"),
        )?;
        std::fs::copy(layout.join("oci-layout"), single.path().join("oci-layout"))?;
        let only = json!({
            "schemaVersion": 2,
            "mediaType": index["mediaType"],
            "manifests": [entry],
        });
        std::fs::write(single.path().join("index.json"), only.to_string())?;
        let target = format!("{registry}/{target}");
        eprintln!("    {target}");
        output(
            Command::new(crane)
                .arg("push")
                .arg(single.path())
                .arg(&target),
        )?;
    }
    Ok(())
}

/// Where each entry of a layout goes: named ones to their names, and documents to the repository of what
/// they are about, after it.
fn uploads(
    index: &Value,
    manifest: impl Fn(&str) -> anyhow::Result<Value>,
) -> anyhow::Result<Vec<Upload>> {
    let entries = index["manifests"]
        .as_array()
        .context("an index without manifests")?;
    let mut repositories: BTreeMap<String, String> = BTreeMap::new();
    let (mut named, mut referrers) = (Vec::new(), Vec::new());
    for entry in entries {
        let digest = digest(entry)?;
        match entry["annotations"][REF_NAME].as_str() {
            Some(name) => {
                let repository = name.rsplit_once(':').map_or(name, |(before, _)| before);
                let images = manifest(digest)?["manifests"].as_array().cloned();
                for image in images.iter().flatten() {
                    repositories.insert(self::digest(image)?.to_owned(), repository.to_owned());
                }
                repositories.insert(digest.to_owned(), repository.to_owned());
                named.push(Upload {
                    entry: entry.clone(),
                    target: name.to_owned(),
                });
            }
            None => referrers.push(entry),
        }
    }
    for entry in referrers {
        let own = digest(entry)?;
        let document = manifest(own)?;
        let subject = digest(&document["subject"])?;
        let Some(repository) = repositories.get(subject) else {
            bail!("{own} refers to {subject}, which is not in the layout");
        };
        named.push(Upload {
            entry: entry.clone(),
            target: format!("{repository}@{own}"),
        });
    }
    Ok(named)
}

fn digest(descriptor: &Value) -> anyhow::Result<&str> {
    let digest = descriptor["digest"].as_str();
    digest.with_context(|| format!("a descriptor without digest: {descriptor}"))
}

fn json_file(path: &Path) -> anyhow::Result<Value> {
    let content =
        std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(serde_json::from_slice(&content)?)
}

/// Signs the checksums of the files, and the artifacts in `registry` if there is one.
pub fn sign(cosign: &Path, key: &str, registry: Option<&str>, dist: &Dist) -> anyhow::Result<()> {
    let mut blob = Command::new(cosign);
    blob.args(["sign-blob", "--key", key]).args(OFFLINE);
    blob.arg("--bundle")
        .arg(dist.path("SHA256SUMS.sigstore.json"));
    output(blob.arg(dist.path(CHECKSUMS)))?;
    let Some(registry) = registry else {
        return Ok(());
    };
    for (name, digest) in dist.artifacts() {
        let repository = name.rsplit_once(':').map_or(name, |(before, _)| before);
        let reference = format!("{registry}/{repository}@{digest}");
        eprintln!("    {reference}");
        let mut sign = Command::new(cosign);
        // The images of an index are signed, too: a node may pull one of them by digest.
        sign.args(["sign", "--recursive", "--key", key])
            .args(OFFLINE);
        if is_loopback(registry) {
            sign.arg("--allow-http-registry");
        }
        output(sign.arg(&reference))?;
    }
    Ok(())
}

/// Registries on this machine, for tests, use plain HTTP.
fn is_loopback(registry: &str) -> bool {
    let host = registry.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_go_to_the_repository_of_their_subject_after_it() {
        let index = json!({"manifests": [
            {"digest": "sha256:sbom"},
            {"digest": "sha256:index", "annotations": {REF_NAME: "llsd:1.0.0"}},
            {"digest": "sha256:chart", "annotations": {REF_NAME: "charts/llsd:1.0.0"}},
        ]});
        let manifest = |digest: &str| {
            Ok(match digest {
                "sha256:sbom" => json!({"subject": {"digest": "sha256:amd64"}}),
                "sha256:index" => json!({"manifests": [{"digest": "sha256:amd64"}]}),
                _ => json!({}),
            })
        };
        let targets: Vec<String> = uploads(&index, manifest)
            .unwrap()
            .into_iter()
            .map(|upload| upload.target)
            .collect();
        assert_eq!(
            targets,
            ["llsd:1.0.0", "charts/llsd:1.0.0", "llsd@sha256:sbom"]
        );
    }

    #[test]
    fn only_registries_on_this_machine_use_plain_http() {
        assert!(is_loopback("localhost:5000/llsd"));
        assert!(is_loopback("127.0.0.1:5000"));
        assert!(!is_loopback("ghcr.io/llsd-project"));
        assert!(!is_loopback("localhost.example.com"));
    }
}

//! `artifacts.json`: what is where in an OCI layout, for people and for programs that mirror it.
//!
//! In: a finished layout. Out: a list of its named artifacts, each with its digest, what its annotations say,
//! and the documents that refer to it.

use std::path::Path;

use anyhow::Context;
use llsd_oci_layout::REF_NAME;
use serde_json::{Value, json};

/// The name of the file.
pub(crate) const FILE: &str = "artifacts.json";
/// Annotations that are listed, and their keys in the list.
const ANNOTATIONS: [(&str, &str); 4] = [
    ("org.opencontainers.image.title", "title"),
    ("io.llamastack.plugin.world", "world"),
    ("io.llamastack.plugin.schemas", "schemas"),
    ("io.llamastack.plugin.component-digest", "componentDigest"),
];

/// The list, as JSON. `layout` is the folder of the layout, which `named` names in the list.
pub(crate) fn write(layout: &Path, named: &str) -> anyhow::Result<Vec<u8>> {
    let index = read(&layout.join("index.json"))?;
    let entries: Vec<&Value> = index["manifests"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let mut artifacts = Vec::new();
    for entry in &entries {
        let Some(name) = entry["annotations"][REF_NAME].as_str() else {
            continue;
        };
        let digest = text(&entry["digest"]);
        let manifest = blob(layout, digest)?;
        let mut artifact = json!({ "name": name, "digest": digest });
        for (annotation, key) in ANNOTATIONS {
            if let Some(value) = manifest["annotations"][annotation].as_str() {
                artifact[key] = json!(value);
            }
        }
        artifact["documents"] = documents(layout, &entries, digest)?;
        artifacts.push(artifact);
    }
    let list = json!({ "layout": named, "artifacts": artifacts });
    Ok(serde_json::to_vec_pretty(&list)?)
}

/// The documents about an artifact: their type and digest. The type of a statement is that of its predicate.
fn documents(layout: &Path, entries: &[&Value], subject: &str) -> anyhow::Result<Value> {
    let mut found = Vec::new();
    for entry in entries {
        let digest = text(&entry["digest"]);
        if entry["artifactType"].is_null() {
            continue;
        }
        let manifest = blob(layout, digest)?;
        if manifest["subject"]["digest"] != subject {
            continue;
        }
        let content = blob(layout, text(&manifest["layers"][0]["digest"]))?;
        let predicate = &content["predicateType"];
        let kind = if predicate.is_string() {
            predicate
        } else {
            &manifest["artifactType"]
        };
        found.push(json!({ "type": kind, "digest": digest }));
    }
    Ok(Value::Array(found))
}

fn blob(layout: &Path, digest: &str) -> anyhow::Result<Value> {
    read(&layout.join("blobs").join(digest.replace(':', "/")))
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let content =
        std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_slice(&content).with_context(|| format!("{} is not JSON", path.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use llsd_oci_layout::{Artifact, ImageLayout, Referrer};

    use super::*;

    #[test]
    fn every_artifact_is_listed_with_its_annotations_and_documents() {
        let folder = tempfile::tempdir().unwrap();
        let mut layout = ImageLayout::create(folder.path(), 0).unwrap();
        let world = ("io.llamastack.plugin.world".to_owned(), "pack".to_owned());
        let artifact = |content: &'static [u8]| Artifact {
            config_type: "application/json",
            config: b"{}",
            content_type: "application/wasm",
            content,
            annotations: BTreeMap::from([world.clone()]),
        };
        let first = layout.artifact("packs/a:1", &artifact(b"a")).unwrap();
        layout.artifact("packs/b:1", &artifact(b"b")).unwrap();
        for (media_type, content) in [
            (
                "application/vnd.in-toto+json",
                r#"{"predicateType": "tested"}"#,
            ),
            ("application/vnd.cyclonedx+json", "{}"),
        ] {
            let referrer = Referrer {
                media_type,
                content: content.as_bytes(),
                annotations: BTreeMap::new(),
            };
            layout.referrer(&first, &referrer).unwrap();
        }
        layout.finish().unwrap();
        let listed = write(folder.path(), "oci").unwrap();
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        assert_eq!(listed["layout"], "oci");
        let [a, b] = listed["artifacts"].as_array().unwrap().as_slice() else {
            panic!("{listed}");
        };
        assert_eq!(
            (&a["name"], &a["world"]),
            (&json!("packs/a:1"), &json!("pack"))
        );
        assert_eq!(a["digest"], first.digest);
        let documents = a["documents"].as_array().unwrap().iter();
        let types: Vec<&Value> = documents.map(|one| &one["type"]).collect();
        assert_eq!(types, ["tested", "application/vnd.cyclonedx+json"]);
        assert_eq!(b["documents"], json!([]));
    }
}

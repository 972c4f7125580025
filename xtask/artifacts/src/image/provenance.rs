//! Provenance: how an image was built, as an in-toto statement with the SLSA predicate.
//!
//! It is not signed. Whoever publishes the image signs it, for example with cosign.

use anyhow::Context;
use data_encoding::HEXLOWER;
use llsd_oci_layout::Descriptor;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use xtask::shell;

use super::source::{Source, URL};

/// The type of an in-toto statement.
pub const MEDIA_TYPE: &str = "application/vnd.in-toto+json";

/// What the statement says.
pub struct Provenance<'a> {
    /// The repository of the image.
    pub repository: &'a str,
    /// The Rust target of the binary.
    pub target: &'a str,
    /// The commit.
    pub source: &'a Source,
}

impl Provenance<'_> {
    /// The statement about `image`.
    pub fn statement(&self, image: &Descriptor) -> anyhow::Result<Value> {
        let Self {
            repository,
            target,
            source,
        } = self;
        let digest = image.digest.trim_start_matches("sha256:");
        let mut dependencies = vec![
            file_digest("Cargo.lock")?,
            file_digest("rust-toolchain.toml")?,
        ];
        if let Some(revision) = &source.revision {
            dependencies.push(json!({
                "uri": format!("git+{URL}"),
                "digest": {"gitCommit": revision},
            }));
        }
        Ok(json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": repository, "digest": {"sha256": digest}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": format!("{URL}/blob/main/docs/operations.md#publish-the-image"),
                    "externalParameters": {"task": "cargo xtask image", "target": target},
                    "resolvedDependencies": dependencies,
                },
                "runDetails": {"builder": {"id": format!("{URL}/blob/main/xtask")}},
            },
        }))
    }
}

fn file_digest(name: &str) -> anyhow::Result<Value> {
    let content = std::fs::read(shell::root().join(name))
        .with_context(|| format!("failed to read {name}"))?;
    let digest = HEXLOWER.encode(&Sha256::digest(&content));
    Ok(json!({"uri": format!("{URL}/blob/main/{name}"), "digest": {"sha256": digest}}))
}

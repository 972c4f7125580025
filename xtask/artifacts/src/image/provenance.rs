//! Provenance: how artifacts were built, as an in-toto statement with the SLSA predicate.
//!
//! It is not signed. Whoever publishes the artifacts signs them, for example with cosign.

use anyhow::Context;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use xtask::shell;

use super::source::{Source, URL};

/// The type of an in-toto statement.
pub const MEDIA_TYPE: &str = "application/vnd.in-toto+json";

/// An artifact that a statement is about.
pub struct Subject(Value);

impl Subject {
    /// The artifact `name` with a digest such as `sha256:…`.
    pub fn new(name: &str, digest: &str) -> Self {
        let digest = digest.trim_start_matches("sha256:");
        Self(json!({"name": name, "digest": {"sha256": digest}}))
    }
}

/// What a statement says about its subjects.
pub struct Provenance<'a> {
    /// The command that built them.
    pub task: &'a str,
    /// The Rust target of a binary.
    pub target: Option<&'a str>,
    /// The commit.
    pub source: &'a Source,
}

impl Provenance<'_> {
    /// The statement about `subjects`, as JSON.
    pub fn statement(&self, subjects: &[Subject]) -> anyhow::Result<String> {
        let Self {
            task,
            target,
            source,
        } = self;
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
        let mut parameters = json!({"task": task});
        if let Some(target) = target {
            parameters["target"] = json!(target);
        }
        let subjects: Vec<&Value> = subjects.iter().map(|subject| &subject.0).collect();
        Ok(json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": format!("{URL}/blob/main/docs/releases.md"),
                    "externalParameters": parameters,
                    "resolvedDependencies": dependencies,
                },
                "runDetails": {"builder": {"id": format!("{URL}/blob/main/xtask")}},
            },
        })
        .to_string())
    }
}

fn file_digest(name: &str) -> anyhow::Result<Value> {
    let content = std::fs::read(shell::root().join(name))
        .with_context(|| format!("failed to read {name}"))?;
    let digest = HEXLOWER.encode(&Sha256::digest(&content));
    Ok(json!({"uri": format!("{URL}/blob/main/{name}"), "digest": {"sha256": digest}}))
}

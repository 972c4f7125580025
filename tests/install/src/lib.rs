//! What the tests of the installation share: where the checkout is, and what renders manifests.

mod cluster;
mod guides;
mod manifests;
mod reader;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use cluster::Cluster;
pub use guides::{Block, Place, blocks_of, pages};
pub use manifests::{Objects, chart, chart_in, chart_test, kustomization, parse};
pub use reader::Reader;

/// The checkout.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .components()
        .collect()
}

/// A program that `cargo xtask test` names in a variable.
pub fn program(variable: &str) -> Result<PathBuf> {
    let value = std::env::var_os(variable);
    value.map(PathBuf::from).with_context(|| {
        format!(
            "{variable} is not set; run `cargo xtask test`, or see CONTRIBUTING.md for its value"
        )
    })
}

/// Every Rust source below a folder, one after the other.
pub fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &std::fs::read_to_string(path).unwrap_or_default();
        }
    }
    text
}

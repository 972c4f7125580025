//! Support code of the installation tests: the checkout, rendered manifests, clusters and guides.

mod cluster;
mod guide_runner;
mod guides;
mod manifests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use cluster::Cluster;
pub use guide_runner::GuideRunner;
pub use guides::{Block, Environment, blocks_of, pages};
pub use manifests::{Objects, chart, chart_in, chart_test, kustomization, parse};

/// The root folder of the checkout.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .components()
        .collect()
}

/// The path of a program, from a variable that `cargo xtask test` sets.
pub fn program(variable: &str) -> Result<PathBuf> {
    let value = std::env::var_os(variable);
    value.map(PathBuf::from).with_context(|| {
        format!(
            "{variable} is not set; run `cargo xtask test`, or see CONTRIBUTING.md for its value"
        )
    })
}

/// The text of every Rust source file below a folder.
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

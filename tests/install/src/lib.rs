//! What the tests of the installation share: where the checkout is, and what renders manifests.

mod cluster;
mod guides;
mod manifests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use cluster::Cluster;
pub use guides::{Block, Place, blocks};
pub use manifests::{Objects, chart, chart_in, chart_test, kustomization, parse};

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

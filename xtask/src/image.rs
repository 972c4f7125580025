//! `cargo xtask image`: the operator's image for this machine, with a static binary.

use std::path::Path;

use crate::{artifacts, static_binary};

/// Writes the image with `binary`, or with a new static binary, to `target/image`.
pub fn run(binary: Option<&Path>) -> anyhow::Result<()> {
    let target = static_binary::THIS_MACHINE;
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => static_binary::build(target)?,
    };
    artifacts::build()?.image(&binary, target)
}

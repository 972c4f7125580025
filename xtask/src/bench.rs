//! `cargo xtask bench`: ratios measured side by side in one run.

use crate::{guests, shell};

/// Builds for release, measures, prints.
pub fn run() -> anyhow::Result<()> {
    let plugins = guests::build_all()?;
    let release = [
        "build",
        "--release",
        "--package",
        "llsd",
        "--package",
        "llsd-bench",
    ];
    shell::step(
        "build for release (some minutes the first time)",
        &mut shell::cargo(&release),
    )?;
    let folder = shell::target().join("release");
    let mut bench = std::process::Command::new(folder.join("llsd-bench"));
    bench
        .arg(plugins.join("llama-stack-0.7.wasm"))
        .arg(folder.join("llsd"));
    shell::step("generation", &mut bench)
}

//! `cargo xtask bench`: runs the benchmarks, which measure ratios within one run.

use std::path::PathBuf;
use std::process::Command;

use crate::{artifacts, shell};

/// Measures generation in the sandbox and natively.
pub fn generation() -> anyhow::Result<()> {
    let plugins = artifacts::build()?.plugins()?;
    let folder = build()?;
    let mut bench = Command::new(folder.join("llsd-bench"));
    bench
        .arg(plugins.join("llama-stack-0.7.wasm"))
        .arg(folder.join("llsd"));
    shell::step("generation", &mut bench)
}

/// Measures the operator on a new control plane. `options` are passed to the benchmark.
pub fn operator(options: &[String]) -> anyhow::Result<()> {
    on_control_plane("operator", &[], options)
}

/// Measures how the cost grows with the number of resources. `options` are passed to the benchmark.
pub fn fleet(options: &[String]) -> anyhow::Result<()> {
    let adapter = artifacts::build()?.plugins()?.join("llama-stack-0.7.wasm");
    on_control_plane("fleet", &[adapter], options)
}

/// Measures conversion and admission on a new control plane.
pub fn webhooks() -> anyhow::Result<()> {
    on_control_plane("webhooks", &[], &[])
}

fn on_control_plane(what: &str, inputs: &[PathBuf], options: &[String]) -> anyhow::Result<()> {
    let cache = shell::cache()?;
    let folder = build()?;
    let mut bench = Command::new(folder.join(format!("llsd-bench-{what}")));
    bench
        .arg(folder.join("llsd"))
        .args(inputs)
        .args(options)
        .env("LLSD_CACHE", cache);
    shell::step(what, &mut bench)
}

/// Builds for release, and returns the directory of the programs.
fn build() -> anyhow::Result<PathBuf> {
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
    Ok(shell::target().join("release"))
}

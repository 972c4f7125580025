//! `cargo xtask bench`: runs the benchmarks, which measure ratios within one run.
//!
//! Operators are measured as they are shipped: as a static binary, with its allocator.

use std::path::PathBuf;
use std::process::Command;

use crate::{artifacts, shell, static_binary};

/// Runs all benchmarks, and prints one table of what has a goal. Writes JSON and a plot to target/bench.
pub fn all(options: &[String]) -> anyhow::Result<()> {
    let folder = shell::target().join("bench");
    let output = ["--output".to_owned(), folder.display().to_string()];
    generation(&output)?;
    webhooks(&output)?;
    fleet(&[&output[..], options].concat())?;
    let mut table = Command::new(shell::target().join("release/llsd-bench-table"));
    shell::step("all figures", table.arg(folder))
}

/// Measures generation in the sandbox and natively. `options` are passed to the benchmark.
pub fn generation(options: &[String]) -> anyhow::Result<()> {
    let plugins = artifacts::build()?.plugins()?;
    let (llsd, folder) = build()?;
    let mut bench = Command::new(folder.join("llsd-bench"));
    bench
        .arg(plugins.join("llama-stack-0.7.wasm"))
        .arg(llsd)
        .args(options);
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

/// Measures conversion and admission on a new control plane. `options` are passed to the benchmark.
pub fn webhooks(options: &[String]) -> anyhow::Result<()> {
    on_control_plane("webhooks", &[], options)
}

fn on_control_plane(what: &str, inputs: &[PathBuf], options: &[String]) -> anyhow::Result<()> {
    let cache = shell::cache()?;
    let (llsd, folder) = build()?;
    let mut bench = Command::new(folder.join(format!("llsd-bench-{what}")));
    bench
        .arg(llsd)
        .args(inputs)
        .args(options)
        .env("LLSD_CACHE", cache);
    shell::step(what, &mut bench)
}

/// Builds for release, and returns the static binary and the directory of the benchmarks.
fn build() -> anyhow::Result<(PathBuf, PathBuf)> {
    let llsd = static_binary::build(static_binary::THIS_MACHINE)?;
    let release = ["build", "--release", "--package", "llsd-bench"];
    shell::step(
        "build the benchmarks for release (ten minutes the first time)",
        &mut shell::cargo(&release),
    )?;
    Ok((llsd, shell::target().join("release")))
}

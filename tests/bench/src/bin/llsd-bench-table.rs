//! The end of `cargo xtask bench all`: prints what the benchmarks wrote to a folder as one table.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::path::PathBuf;

use anyhow::Context;
use llsd_bench::measurement;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.context("usage: llsd-bench-table FOLDER")?;
    println!("{}", measurement::table(&measurement::read_all(&folder)?));
    Ok(())
}

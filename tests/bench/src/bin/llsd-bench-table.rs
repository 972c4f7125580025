//! The end of `cargo xtask bench all`: prints what the benchmarks wrote to a folder as one table, and draws
//! their plot there.

#![allow(clippy::print_stdout, reason = "the output of a command")]

use std::path::PathBuf;

use anyhow::Context;
use llsd_bench::{measurement, plot};

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.context("usage: llsd-bench-table FOLDER")?;
    let measurements = measurement::read_all(&folder)?;
    println!("{}", measurement::table(&measurements));
    plot::write(&folder, &measurements)
}

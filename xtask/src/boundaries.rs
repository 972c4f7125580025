//! Which crates must stay out of which of ours.

use anyhow::{Context, ensure};

use crate::shell;

/// The core is a function of its arguments: nothing in it can wait, run a plugin or ask a cluster.
const CORE: [&str; 2] = ["llsd-api", "llsd-render"];
const SHELL: [&str; 4] = ["tokio", "wasmtime", "kube-client", "reqwest"];

/// Fails when a crate of the core depends, at any depth, on one that only the shell may use.
pub fn check() -> anyhow::Result<()> {
    for package in CORE {
        let output = shell::cargo(&[
            "tree",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .output()
        .context("could not run cargo tree")?;
        ensure!(
            output.status.success(),
            "cargo tree --package {package}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let tree = String::from_utf8(output.stdout)?;
        let crates = tree.lines().filter_map(|line| line.split(' ').next());
        let intruders: Vec<_> = crates.filter(|name| SHELL.contains(name)).collect();
        ensure!(
            intruders.is_empty(),
            "{package} belongs to the pure core and depends on {}; see `cargo tree --package {package} --invert {}`",
            intruders.join(", "),
            intruders[0]
        );
    }
    Ok(())
}

//! Checks that the core does not depend on crates for I/O.

use anyhow::{Context, ensure};

use crate::shell;

/// The pure core. Its output depends on its arguments only: no waiting, no plugins, no cluster.
const CORE: [&str; 2] = ["llsd-api", "llsd-render"];
/// Crates that the core must not depend on.
const FORBIDDEN: [&str; 4] = ["tokio", "wasmtime", "kube-client", "reqwest"];

/// Fails if a crate of the core depends on a forbidden crate, directly or indirectly.
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
        .context("failed to run cargo tree")?;
        ensure!(
            output.status.success(),
            "cargo tree --package {package} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let tree = String::from_utf8(output.stdout)?;
        let crates = tree.lines().filter_map(|line| line.split(' ').next());
        let found: Vec<_> = crates.filter(|name| FORBIDDEN.contains(name)).collect();
        ensure!(
            found.is_empty(),
            "{package} is part of the pure core and must not depend on {}; see `cargo tree --package {package} --invert {}`",
            found.join(", "),
            found[0]
        );
    }
    Ok(())
}

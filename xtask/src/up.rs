//! `cargo xtask up`: a cluster to try things in.

use crate::control_plane::Testbed;
use crate::shell;

/// What is there from the start: the shortest resource, and a distribution as it ships.
const SAMPLES: [&str; 2] = ["samples/minimal.yaml", "samples/default.yaml"];

/// Starts everything, says what to try next, and ends it all on Ctrl-C.
pub fn run() -> anyhow::Result<()> {
    shell::step(
        "build llsd (the first time takes some minutes)",
        &mut shell::cargo(&["build", "--workspace", "--bin", "llsd"]),
    )?;
    eprintln!(
        "==> control plane, registry, operator (the first time builds Kubernetes: about ten minutes)"
    );
    Testbed::build(&shell::cache()?)?.playground(&SAMPLES)
}

//! `cargo xtask up`: runs a local cluster with the operator.

use crate::control_plane::Testbed;
use crate::shell;

/// Resources that are created at the start: a minimal one, and one with an unchanged configuration.
const SAMPLES: [&str; 2] = ["samples/minimal.yaml", "samples/default.yaml"];

/// Starts the cluster and prints commands to try. Ctrl-C stops it.
pub fn run(is_built: bool) -> anyhow::Result<()> {
    let cache = shell::cache()?;
    let testbed = if is_built {
        Testbed::built(&cache)
    } else {
        shell::build_llsd()?;
        Testbed::build(&cache)?
    };
    eprintln!(
        "==> control plane, registry, operator (the first time builds Kubernetes: about ten minutes)"
    );
    Err(testbed.playground(&SAMPLES))
}

//! `cargo xtask up`: a cluster to try things in.

use crate::control_plane::Testbed;
use crate::shell;

/// What is there from the start: the shortest resource, and a distribution as it ships.
const SAMPLES: [&str; 2] = ["samples/minimal.yaml", "samples/default.yaml"];

/// Starts everything, says what to try next, and ends it all on Ctrl-C.
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

//! `cargo xtask up`: runs a local cluster with the operator.

use crate::control_plane::Testbed;
use crate::{node, shell};

/// Resources that are created on a simulated node: a minimal one, and one with an unchanged
/// configuration.
const SAMPLES: [&str; 2] = ["samples/minimal.yaml", "samples/default.yaml"];

/// Starts the cluster and prints commands to try. Ctrl-C stops it.
///
/// The node is real if this machine can run one, so that the server answers. Otherwise, or with
/// `is_simulated`, pods become ready but no container runs.
pub fn run(is_built: bool, is_simulated: bool) -> anyhow::Result<()> {
    let cache = shell::cache()?;
    let testbed = if is_built {
        Testbed::built(&cache)
    } else {
        shell::build_llsd()?;
        Testbed::build(&cache)?
    };
    let packages = if is_simulated {
        None
    } else {
        match node::prepare(&testbed, &cache)? {
            Ok(packages) => Some(packages),
            Err(reason) => {
                eprintln!("==> the node is simulated, so servers do not answer: {reason}");
                None
            }
        }
    };
    eprintln!(
        "==> control plane, registry, operator (the first time builds Kubernetes: about ten minutes)"
    );
    Err(testbed.playground(&SAMPLES, packages.as_ref()))
}

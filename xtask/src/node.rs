//! `cargo xtask node`: a cluster with a real node, and the parts that tests and `up` need for one.

use std::path::{Path, PathBuf};

use crate::control_plane::Testbed;
use crate::{oracle, prerequisites};

/// The packages of the servers that run on a node.
pub struct ServerPackages {
    /// The directory with a Python environment for each release.
    pub venvs: PathBuf,
    /// Python 3.12.
    pub python: PathBuf,
}

/// The release in the image of the distribution `starter`.
const STARTER_RELEASE: &str = "0.7.3";

/// Whether this machine must not leave out tests.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Installs the server packages of the distribution `starter` for a node. Returns the reason if no node
/// can run.
pub fn prepare(
    testbed: &Testbed<'_>,
    cache: &Path,
) -> anyhow::Result<Result<ServerPackages, String>> {
    if let Some(reason) = testbed.node_problem()? {
        return Ok(Err(reason));
    }
    let Some(python) = prerequisites::find_python() else {
        return Ok(Err(
            "a real node needs Python 3.12, for the server's image".to_owned()
        ));
    };
    let venvs = oracle::ensure_release(cache, &python, Some(STARTER_RELEASE))?;
    Ok(Ok(ServerPackages { venvs, python }))
}

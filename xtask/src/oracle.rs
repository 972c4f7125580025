//! `cargo xtask oracle`: installs the real server packages, which validate generated configurations.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::{prerequisites, shell};

/// Paths of the installed releases.
pub struct OraclePaths {
    /// The directory with a Python environment for each release.
    pub venvs: PathBuf,
    /// The directory of `validate_config.py`, `run_server.py` and `fake_vllm.py`.
    pub scripts: PathBuf,
    /// The Python 3.12 that was found.
    pub python: PathBuf,
}

/// Installs every release that is not in the cache. Prints progress.
pub fn ensure_oracle(cache: &Path) -> anyhow::Result<OraclePaths> {
    let python = prerequisites::find_python()
        .context("Python 3.12 was not found; install it, or set PYTHON to its path")?;
    Ok(OraclePaths {
        venvs: ensure_release(cache, &python, None)?,
        scripts: scripts(),
        python,
    })
}

/// Installs one release, or all of them, and returns the directory of their environments.
pub fn ensure_release(
    cache: &Path,
    python: &Path,
    release: Option<&str>,
) -> anyhow::Result<PathBuf> {
    let mut setup = Command::new(python);
    setup
        .arg(scripts().join("setup.py"))
        .arg("--cache")
        .arg(cache)
        .args(release);
    shell::step("real server packages", &mut setup)?;
    Ok(cache.join("oracle/venvs"))
}

fn scripts() -> PathBuf {
    shell::root().join("tests/oracle")
}

/// Tests the validator with files whose result is known.
pub fn selftest(paths: &OraclePaths) -> anyhow::Result<()> {
    let mut selftest = Command::new(&paths.python);
    selftest
        .arg(paths.scripts.join("selftest.py"))
        .arg("--venvs")
        .arg(&paths.venvs);
    shell::step("self-test of the validator", &mut selftest)
}

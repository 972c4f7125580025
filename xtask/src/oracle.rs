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
    let scripts = shell::root().join("tests/oracle");
    let python = prerequisites::find_python()
        .context("Python 3.12 was not found; install it, or set PYTHON to its path")?;
    let mut setup = Command::new(&python);
    setup
        .arg(scripts.join("setup.py"))
        .arg("--cache")
        .arg(cache);
    shell::step("real server packages", &mut setup)?;
    Ok(OraclePaths {
        venvs: cache.join("oracle/venvs"),
        scripts,
        python,
    })
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

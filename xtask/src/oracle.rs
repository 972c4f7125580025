//! `cargo xtask oracle`: the real server packages that generated configurations are checked with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::shell;

/// What tests need to know about the installed releases.
pub struct OraclePaths {
    /// A Python environment for each release.
    pub venvs: PathBuf,
    /// `validate_config.py`, `run_server.py` and `fake_vllm.py`.
    pub scripts: PathBuf,
    /// The Python 3.12 that was found.
    pub python: PathBuf,
}

/// Installs every release that is not in the cache yet, with progress.
pub fn ensure_oracle(cache: &Path) -> anyhow::Result<OraclePaths> {
    let scripts = shell::root().join("tests/oracle");
    let python = find_python()?;
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

/// Proves the validator on files whose verdict is known.
pub fn selftest(paths: &OraclePaths) -> anyhow::Result<()> {
    let mut selftest = Command::new(&paths.python);
    selftest
        .arg(paths.scripts.join("selftest.py"))
        .arg("--venvs")
        .arg(&paths.venvs);
    shell::step("the validator against what is known", &mut selftest)
}

/// `$PYTHON`, `python3.12` or pyenv's, whichever really is Python 3.12.
///
/// Each is run to find out: with pyenv `python3.12` can be a shim that only says which versions
/// have it.
fn find_python() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let usual = [PathBuf::from("python3.12"), PathBuf::from("python3")];
    let candidates = named.into_iter().chain(usual).chain(pyenv_versions());
    candidates.into_iter().find(|python| is_python_3_12(python)).context(
        "no Python 3.12 was found; install it (the server packages need that version), or name it in PYTHON",
    )
}

fn pyenv_versions() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    let Some(versions) = root.or_else(home) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(versions.join("versions")) else {
        return Vec::new();
    };
    let is_3_12 =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("3.12");
    entries
        .flatten()
        .filter(is_3_12)
        .map(|entry| entry.path().join("bin/python"))
        .collect()
}

fn is_python_3_12(python: &Path) -> bool {
    Command::new(python)
        .args([
            "-c",
            "import sys; sys.exit(sys.version_info[:2] != (3, 12))",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

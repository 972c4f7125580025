//! Finds Python 3.12 with its `venv` module.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first of `$PYTHON`, `python3.12`, `python3` and pyenv's versions that is Python 3.12.
///
/// Each candidate is run, because `python3.12` can be a shim of pyenv that only prints an error.
pub fn find() -> Option<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let usual = [PathBuf::from("python3.12"), PathBuf::from("python3")];
    let mut candidates = named.into_iter().chain(usual).chain(pyenv_versions());
    candidates.find(|python| is_python_3_12(python))
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
            // On Debian, these modules are not in the package of the interpreter.
            "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 12))",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

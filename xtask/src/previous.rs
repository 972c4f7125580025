//! The release before the next one, from which `cargo xtask release --verify` upgrades.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::shell;

/// Its last commit. Nothing was published yet: this is the end of the first round of development.
const COMMIT: &str = "d8165308743671cfbce0e47e368b855c3bd791b4";

/// Builds the release, if it is not in the cache. Returns a folder with its sources in `source` and its
/// binary in `llsd`.
pub fn ensure(cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join("releases").join(COMMIT);
    let binary = folder.join("llsd");
    if !binary.exists() {
        let source = folder.join("source");
        std::fs::create_dir_all(&source)?;
        extract(&source)?;
        let target = folder.join("target");
        let mut build = shell::cargo(&["build", "--quiet", "--locked", "--package", "llsd"]);
        build.current_dir(&source).env("CARGO_TARGET_DIR", &target);
        shell::step("build the release before (ten minutes, once)", &mut build)?;
        // Last, so that a build that was interrupted starts again.
        std::fs::rename(target.join("debug/llsd"), &binary)?;
        std::fs::remove_dir_all(&target)?;
    }
    Ok(folder)
}

/// Writes the files of the commit to `folder`.
fn extract(folder: &Path) -> anyhow::Result<()> {
    let mut archive = Command::new("git")
        .args(["archive", "--format=tar", COMMIT])
        .current_dir(shell::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start git")?;
    let files = archive.stdout.take().context("git was not piped")?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--directory").arg(folder);
    let extracted = tar.stdin(files).status().context("failed to start tar")?;
    ensure!(
        archive.wait()?.success() && extracted.success(),
        "failed to read the commit {COMMIT}; fetch the whole history with `git fetch --unshallow`"
    );
    Ok(())
}

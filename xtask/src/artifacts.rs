//! The program `xtask-artifacts`: tasks that make files, and need more libraries than xtask has.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// The program, ready to be called.
pub struct Artifacts(());

/// Builds the program, with the features that the whole workspace has.
pub fn build() -> anyhow::Result<Artifacts> {
    shell::step(
        "build xtask-artifacts",
        &mut shell::cargo(&[
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "xtask-artifacts",
        ]),
    )?;
    Ok(Artifacts(()))
}

/// The program as it was built together with the tests.
pub fn built() -> Artifacts {
    Artifacts(())
}

impl Artifacts {
    /// Builds every component, and returns their folder.
    pub fn plugins(&self) -> anyhow::Result<PathBuf> {
        shell::step("adapters as components", command().arg("plugins"))?;
        Ok(shell::root().join("target/plugins"))
    }

    /// Rewrites the generated files, or fails when one of them is out of date.
    pub fn generate(&self, check: bool) -> anyhow::Result<()> {
        let mut generate = command();
        generate.arg("generate").args(check.then_some("--check"));
        shell::step("generated files", &mut generate)
    }

    /// Makes the release archive with `binary` in it.
    pub fn package(&self, binary: &Path) -> anyhow::Result<()> {
        let mut package = command();
        package.arg("package").arg("--binary").arg(binary);
        shell::step("release archive", &mut package)
    }
}

fn command() -> Command {
    let mut command = Command::new(shell::target().join("debug/xtask-artifacts"));
    command.current_dir(shell::root());
    command
}

//! Runs `xtask-artifacts`, the program for tasks that create files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// The built program.
pub struct Artifacts(());

/// Builds the program with `--workspace`, so that dependencies are built with the same features as
/// for everything else.
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

/// The program, which was already built together with the tests.
pub fn built() -> Artifacts {
    Artifacts(())
}

impl Artifacts {
    /// Builds every plugin, and returns the directory of the components.
    pub fn plugins(&self) -> anyhow::Result<PathBuf> {
        shell::step("build the plugins", command().arg("plugins"))?;
        Ok(shell::root().join("target/plugins"))
    }

    /// Writes the generated files. With `check`, fails if one of them is out of date.
    pub fn generate(&self, check: bool) -> anyhow::Result<()> {
        let mut generate = command();
        generate.arg("generate").args(check.then_some("--check"));
        shell::step("generated files", &mut generate)
    }

    /// Writes the operator's image with `binary`, which was built for `target`, to `target/image`.
    pub fn image(&self, binary: &Path, target: &str) -> anyhow::Result<()> {
        let mut image = command();
        image.args(["image", "--target", target, "--binary"]);
        image.arg(binary).arg("--output");
        image.arg(shell::root().join("target/image"));
        shell::step("image of the operator", &mut image)
    }

    /// Creates the release archive with `binary`.
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

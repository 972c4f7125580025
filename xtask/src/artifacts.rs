//! Runs `xtask-artifacts`, the program for tasks that create files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{shell, static_binary};

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

    /// Compares every plugin with those of the last release, in `released`, on the configurations of the
    /// server releases in `bases`.
    pub fn plugins_diff(&self, released: &Path, bases: &Path) -> anyhow::Result<()> {
        let mut diff = command();
        diff.args(["plugins-diff", "--released"])
            .arg(std::path::absolute(released)?);
        diff.arg("--bases").arg(bases);
        shell::step("compare the plugins with the last release", &mut diff)
    }

    /// Builds every plugin as the ones inside a static binary are built, and returns the directory.
    pub fn release_plugins(&self) -> anyhow::Result<PathBuf> {
        // Where the build script of the static binary builds them, too.
        let folder = shell::target().join(static_binary::THIS_MACHINE);
        let plugins = folder.join("plugins");
        let mut build = command();
        build.arg("plugins").arg("--output").arg(&plugins);
        build.arg("--build-folder").arg(folder.join("guests"));
        static_binary::set_guest_flags(&mut build)?;
        shell::step("build the plugins", &mut build)?;
        Ok(plugins)
    }

    /// Makes a release with `binaries`, each with its target.
    pub fn release(
        &self,
        binaries: &[(String, PathBuf)],
        arguments: &BTreeMap<&str, PathBuf>,
    ) -> anyhow::Result<()> {
        let mut release = command();
        release.arg("release").args(
            arguments
                .iter()
                .flat_map(|(option, value)| [OsStr::new(option), value.as_os_str()]),
        );
        for (target, file) in binaries {
            let mut value = OsString::from(format!("{target}="));
            value.push(file);
            release.arg("--binary").arg(value);
        }
        shell::step("release", &mut release)
    }

    /// Checks the licences, versions and sources of all dependencies.
    pub fn deny(&self) -> anyhow::Result<()> {
        shell::step("dependencies against deny.toml", command().arg("deny"))
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

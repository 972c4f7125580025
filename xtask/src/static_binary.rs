//! Builds `llsd` for release as a static binary, for this machine and for others.
//!
//! zig is the C compiler and the linker, because it links for every target on every machine, without
//! packages of the distribution. cargo-zigbuild tells cargo and C build scripts to use it.
//!
//! The same commit gives the same binary: the toolchain, zig and all dependencies are pinned, and the
//! paths of this machine are replaced.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{prerequisites, shell, tools};

/// The targets of a release.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// How jemalloc manages memory. Few arenas with short-lived free pages: what a start frees after it compiled
/// the adapters is not kept for later (decision 24).
const JEMALLOC: &str = "narenas:2,dirty_decay_ms:500,muzzy_decay_ms:0";

/// The target of a static binary for this machine.
pub const THIS_MACHINE: &str = if cfg!(target_arch = "aarch64") {
    TARGETS[1]
} else {
    TARGETS[0]
};

/// Builds `llsd` for `target`, and returns its path.
pub fn build(target: &str) -> anyhow::Result<PathBuf> {
    let python = prerequisites::find_python().context("Python 3.12 was not found")?;
    let zig = tools::ensure_zig(&shell::cache()?, &python)?;
    let mut build = Command::new(&zig.cargo_zigbuild);
    build
        .args(["zigbuild", "--locked", "--release", "--package", "llsd"])
        .args(["--target", target])
        .current_dir(shell::root())
        .env("CARGO_ZIGBUILD_ZIG_PATH", &zig.zig)
        .env("CARGO_ZIGBUILD_CACHE_DIR", &zig.cache)
        .env("ZIG_GLOBAL_CACHE_DIR", &zig.cache)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("JEMALLOC_SYS_WITH_MALLOC_CONF", JEMALLOC);
    if target.starts_with("aarch64") {
        // jemalloc needs the largest pages of any kernel, as an exponent of two: 64 KiB.
        build.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
    }
    let paths = Paths::of_this_machine()?;
    build.env(
        format!("CFLAGS_{}", target.replace('-', "_")),
        paths.flags("-ffile-prefix-map")?,
    );
    // The adapters inside the binary are compiled for WebAssembly, by a build script.
    for target in [target, llsd_wasm_target::TARGET] {
        set_flags(&mut build, target, &paths)?;
    }
    let title = format!("build llsd for {target} (15 minutes the first time, on two cores)");
    shell::step(&title, &mut build)?;
    let binary = shell::target().join(target).join("release/llsd");
    let content =
        std::fs::read(&binary).with_context(|| format!("failed to read {}", binary.display()))?;
    paths.check(&content)?;
    Ok(binary)
}

/// Makes `command` compile adapters as they are compiled for a static binary.
pub fn set_guest_flags(command: &mut Command) -> anyhow::Result<()> {
    set_flags(
        command,
        llsd_wasm_target::TARGET,
        &Paths::of_this_machine()?,
    )
}

/// Makes the compiler replace the paths of this machine in what it compiles for `target`.
fn set_flags(command: &mut Command, target: &str, paths: &Paths) -> anyhow::Result<()> {
    let name = target.replace('-', "_").to_uppercase();
    command
        .env(
            format!("CARGO_TARGET_{name}_RUSTFLAGS"),
            paths.flags("--remap-path-prefix")?,
        )
        // These would replace the flags of the target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(())
}

/// Directories of this machine whose paths are in panic messages.
struct Paths {
    checkout: PathBuf,
    cargo_home: PathBuf,
    target: PathBuf,
}

impl Paths {
    fn of_this_machine() -> anyhow::Result<Self> {
        Ok(Self {
            checkout: shell::root(),
            cargo_home: cargo_home()?,
            target: shell::target(),
        })
    }

    /// Checks that a binary contains none of them, because a build elsewhere would differ.
    fn check(&self, binary: &[u8]) -> anyhow::Result<()> {
        let text = String::from_utf8_lossy(binary);
        // A short path such as /src is part of other paths.
        let is_long = |path: &&PathBuf| path.components().count() > 2;
        let all = [&self.checkout, &self.cargo_home, &self.target];
        for path in all.into_iter().filter(is_long) {
            let path = path.display().to_string();
            ensure!(
                !text.contains(&path),
                "the binary contains the path \"{path}\" of this machine, so that a build elsewhere would differ; \
                 find out which crate it is from, and replace it"
            );
        }
        Ok(())
    }

    /// The option of a compiler for each directory, with what replaces it. The compiler uses the last one
    /// that matches, and the target directory can be in the checkout.
    fn flags(&self, option: &str) -> anyhow::Result<String> {
        let replacements = [
            (&self.checkout, "."),
            (&self.cargo_home, "cargo"),
            (&self.target, "target"),
        ];
        let mut flags = Vec::new();
        for (path, name) in replacements {
            let path = path.display().to_string();
            ensure!(
                !path.contains(' '),
                "the path \"{path}\" contains a space, which cargo does not support in compiler flags; use another \
                 directory"
            );
            flags.push(format!("{option}={path}={name}"));
        }
        Ok(flags.join(" "))
    }
}

/// Where cargo keeps the sources of crates.
fn cargo_home() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    given
        .or_else(home)
        .context("no cargo home; set CARGO_HOME or HOME")
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use super::*;

    fn paths(checkout: &str) -> Paths {
        Paths {
            checkout: checkout.into(),
            cargo_home: "/home/me/.cargo".into(),
            target: format!("{checkout}/target").into(),
        }
    }

    #[test]
    fn the_paths_of_this_machine_are_replaced() {
        let mut command = Command::new("cargo");
        set_flags(&mut command, TARGETS[1], &paths("/src")).unwrap();
        let name = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS";
        let value = command.get_envs().find(|(seen, _)| *seen == name);
        let value = value.and_then(|(_, value)| value?.to_str());
        assert_eq!(
            value,
            Some(
                "--remap-path-prefix=/src=. --remap-path-prefix=/home/me/.cargo=cargo \
                 --remap-path-prefix=/src/target=target"
            )
        );
    }

    #[test]
    fn the_compiler_gets_the_paths_that_it_sees() {
        let Paths {
            checkout,
            cargo_home,
            target,
        } = Paths::of_this_machine().unwrap();
        for path in [checkout, cargo_home, target] {
            let mut parts = path.components();
            assert!(!parts.any(|part| part == Component::ParentDir), "{path:?}");
        }
    }

    #[test]
    fn a_binary_with_a_path_of_this_machine_is_rejected() {
        let paths = paths("/work/llsd");
        paths.check(b"\xff./host/cli/src/main.rs\0").unwrap();
        let error = paths.check(b"\xff/work/llsd/target/out.rs\0").unwrap_err();
        assert!(error.to_string().contains("\"/work/llsd\""), "{error}");
    }

    #[test]
    fn a_path_with_a_space_is_rejected() {
        let error = paths("/my src").flags("--option").unwrap_err().to_string();
        assert!(error.contains("\"/my src\" contains a space"), "{error}");
    }
}

//! `cargo xtask release`: builds everything that a user installs, checks it, and publishes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, ensure};

use llsd_toolchain::Tool;

use crate::control_plane::Testbed;
use crate::static_binary::{self, TARGETS, THIS_MACHINE};
use crate::{artifacts, elf, node, previous, shell, tools};

/// Options of the task.
#[derive(clap::Args)]
pub struct Options {
    /// Fail unless this tag is that of the version, and the checkout is unchanged
    #[arg(long)]
    tag: Option<String>,
    /// Push to this registry, such as registry.example.com/llsd, and refer to it in the manifests
    #[arg(long, value_name = "REF")]
    registry: Option<String>,
    /// Sign with this private key of cosign. COSIGN_PASSWORD is its password
    #[arg(long, value_name = "KEY")]
    sign: Option<String>,
    /// Use this static llsd binary instead of building one; repeatable
    #[arg(long = "binary", value_name = "TARGET=FILE", value_parser = parse_binary)]
    binaries: Vec<(String, PathBuf)>,
    /// The folder of the release; target/dist if it is left out
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Make nothing; verify the release that was pushed to this registry, and install it on a real node
    #[arg(long, value_name = "REF", conflicts_with_all = ["tag", "registry", "sign", "binaries"])]
    verify: Option<String>,
    /// The public key of cosign that --verify demands signatures of
    #[arg(long, value_name = "FILE", requires = "verify")]
    key: Option<PathBuf>,
}

impl Options {
    /// Whether a release is only verified.
    pub fn is_verification(&self) -> bool {
        self.verify.is_some()
    }
}

fn parse_binary(text: &str) -> anyhow::Result<(String, PathBuf)> {
    let (target, file) = text
        .split_once('=')
        .context("must have the form TARGET=FILE")?;
    ensure!(
        TARGETS.contains(&target),
        "the target \"{target}\" is not one of: {}",
        TARGETS.join(", ")
    );
    Ok((target.to_owned(), std::path::absolute(file)?))
}

/// Makes the release. With given binaries, only for their targets.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Options {
        tag,
        registry,
        sign,
        binaries,
        output,
        verify,
        key,
    } = options;
    let cache = shell::cache()?;
    let output = output.clone().unwrap_or_else(folder);
    if let Some(registry) = verify {
        return self::verify(&cache, &output, registry, key.as_deref());
    }
    let binaries = if binaries.is_empty() {
        let build = |target: &str| Ok((target.to_owned(), static_binary::build(target)?));
        TARGETS
            .into_iter()
            .map(build)
            .collect::<anyhow::Result<Vec<_>>>()?
    } else {
        binaries.clone()
    };
    for (target, binary) in &binaries {
        check(target, binary)?;
    }
    let runnable = binaries.iter().find(|(target, _)| target == THIS_MACHINE);
    let (_, runnable) = runnable.with_context(|| {
        format!("no binary for {THIS_MACHINE}, which writes the completions; add it with --binary")
    })?;
    let artifacts = artifacts::build()?;
    let plugins = artifacts.release_plugins()?;

    let mut arguments: BTreeMap<&str, PathBuf> = BTreeMap::from([
        ("--llsd", runnable.clone()),
        ("--plugins", plugins),
        ("--kubectl", go_program(&cache, Tool::Kubectl)?),
        ("--crane", go_program(&cache, Tool::Crane)?),
        ("--output", output),
    ]);
    if let Some(tag) = tag {
        arguments.insert("--tag", tag.into());
    }
    if let Some(registry) = registry {
        arguments.insert("--registry", registry.into());
    }
    if let Some(key) = sign {
        arguments.insert("--sign", key.into());
        arguments.insert("--cosign", go_program(&cache, Tool::Cosign)?);
    }
    artifacts.release(&binaries, &arguments)
}

/// Verifies the release in `folder` and in `registry`, and installs it.
fn verify(cache: &Path, folder: &Path, registry: &str, key: Option<&Path>) -> anyhow::Result<()> {
    let packages = node::prepare(&Testbed::build(cache)?, cache)?;
    let packages = packages.map_err(|reason| anyhow!("no node can run here: {reason}"))?;
    let previous = previous::ensure(cache)?;
    let build = ["build", "--quiet", "--workspace", "--bin", "verify-release"];
    shell::step("build verify-release", &mut shell::cargo(&build))?;
    let mut verify = Command::new(shell::target().join("debug/verify-release"));
    verify.arg(folder).arg(registry);
    verify.arg(go_program(cache, Tool::Cosign)?);
    verify.arg(tools::ensure_wkg(cache)?);
    verify.arg(previous).args(key);
    verify.env("LLSD_CACHE", cache);
    verify.env("LLSD_ORACLE", cache.join("oracle"));
    verify.env("LLSD_PYTHON", packages.python);
    shell::step("verify the release", &mut verify)
}

/// Builds a Go program, if it is not in the cache.
fn go_program(cache: &Path, tool: Tool) -> anyhow::Result<PathBuf> {
    let mut built = llsd_toolchain::ensure_built(cache, &[tool])?;
    built.pop().with_context(|| format!("{tool} was not built"))
}

/// The folder of a release.
fn folder() -> PathBuf {
    shell::root().join("target/dist")
}

/// Checks that a binary is static and for its target, and that it starts, if this machine can run it.
fn check(target: &str, binary: &Path) -> anyhow::Result<()> {
    let problem = || format!("{} cannot be released", binary.display());
    let content = std::fs::read(binary).with_context(problem)?;
    elf::check(&content, target).with_context(problem)?;
    let emulator = ["qemu-aarch64-static", "qemu-aarch64"]
        .into_iter()
        .find(|name| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
        });
    let mut command = match (target == THIS_MACHINE, emulator) {
        (true, _) => Command::new(binary),
        (false, Some(emulator)) if target.starts_with("aarch64") => {
            let mut command = Command::new(emulator);
            command.arg(binary);
            command
        }
        _ => {
            eprintln!(
                "    {target}: the headers are right; not run, because qemu-aarch64 was not found"
            );
            return Ok(());
        }
    };
    shell::step(&format!("run llsd for {target}"), command.arg("--version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_given_with_a_target_of_a_release() {
        let (target, file) = parse_binary("aarch64-unknown-linux-musl=/build/llsd").unwrap();
        assert_eq!((target.as_str(), file), (TARGETS[1], "/build/llsd".into()));
        let error = parse_binary("riscv64=/build/llsd").unwrap_err().to_string();
        assert!(
            error.starts_with("the target \"riscv64\" is not one of: "),
            "{error}"
        );
        assert!(parse_binary("/build/llsd").is_err());
    }
}

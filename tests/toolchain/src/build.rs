//! Builds tools with `go build`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Tool, built_path, locate, module_dir, print_progress, read, version};

/// Builds the missing ones of `tools`, prints progress to stderr, and returns all paths in the
/// order of `tools`.
pub fn ensure_built(cache: &Path, tools: &[Tool]) -> Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    for tool in tools {
        if locate(cache, *tool)?.is_none() {
            missing.push(*tool);
        }
    }
    for (index, tool) in missing.iter().enumerate() {
        let position = format!("{} of {}", index + 1, missing.len());
        build(cache, *tool, &position).with_context(|| format!("failed to build {tool}"))?;
    }
    tools
        .iter()
        .map(|tool| {
            locate(cache, *tool)?.with_context(|| format!("{tool} not found after its build"))
        })
        .collect()
}

fn build(cache: &Path, tool: Tool, position: &str) -> Result<()> {
    let binary = built_path(cache, tool)?;
    let folder = binary.parent().context("the cache has no parent folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;

    // Two test processes may build the same tool: the second waits and finds the binary.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;
    if binary.is_file() {
        return Ok(());
    }

    let version = version(tool)?;
    print_progress(&format!(
        "building {tool} {version} ({position}), {}",
        tool.usual_build()
    ));
    let started = Instant::now();
    let log_path = folder.join(format!("{tool}.log"));
    let log = File::create(&log_path)?;
    let temporary = folder.join(format!("{tool}.tmp"));
    let mut child = Command::new("go")
        .current_dir(module_dir())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        // Fewer collections in the compiler and the linker, for more memory.
        .env("GOGC", "400")
        .args([
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            // Without debug information, which the linker would drop anyway, and with one thread per
            // package, because packages are compiled side by side: a fifth faster.
            "-gcflags=all=-dwarf=false -c=1",
            "-ldflags",
        ])
        .arg(linker_flags(tool, &version))
        .arg("-o")
        .arg(&temporary)
        .arg(tool.package())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context(
            "failed to run go; install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder \
             with the binaries",
        )?;
    let mut next_report = Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(200));
        if started.elapsed() > next_report {
            print_progress(&format!(
                "still building {tool} ({} min)",
                started.elapsed().as_secs() / 60
            ));
            next_report += Duration::from_secs(60);
        }
    };
    if !status.success() {
        let log = read(&log_path)?;
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("go build failed with {status}:\n{}", tail.join("\n"));
    }
    fs::rename(&temporary, &binary)?;
    fs::remove_file(&log_path)?;
    print_progress(&format!(
        "built {tool} {version} in {} s",
        started.elapsed().as_secs()
    ));
    Ok(())
}

/// Sets the version of Kubernetes programs. Without it they report `v0.0.0-master`, which clients
/// reject.
fn linker_flags(tool: Tool, version: &str) -> String {
    let mut flags = String::from("-s -w");
    if tool.versioned_by() == "k8s.io/kubernetes" {
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("0"));
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
        ] {
            flags.push_str(&format!(" -X k8s.io/component-base/version.{name}={value}"));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_programs_are_linked_with_their_version() {
        assert_eq!(
            linker_flags(Tool::Kubectl, "v1.36.3"),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36"
        );
        assert_eq!(linker_flags(Tool::Crane, "v0.22.1"), "-s -w");
    }
}

//! Runs the system's programs.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Runs a program and fails with its messages if it fails.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    output(program, arguments).map(drop)
}

/// Runs a program and returns its standard output.
pub(super) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let shown = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("failed to run `{}`", shown()))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` failed ({}): {}",
            shown(),
            output.status,
            messages.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

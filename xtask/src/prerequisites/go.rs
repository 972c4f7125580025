//! Checks that Go is installed and new enough for the modules of the testbed.

use std::process::Command;

use anyhow::Context;

use super::Missing;
use crate::shell;

/// A Go release: major, minor, patch.
type Version = (u32, u32, u32);

/// Returns what is missing, if anything is.
pub(super) fn check() -> anyhow::Result<Option<Missing>> {
    let required = required()?;
    let (major, minor, _) = required;
    let fix = format!("install Go {major}.{minor} or later, and put it on PATH");
    // GOTOOLCHAIN=local: otherwise Go may download another toolchain to print the version.
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .env("GOTOOLCHAIN", "local")
        .output();
    Ok(match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let is_enough = parse(text.trim()).is_some_and(|found| found >= required);
            let what = format!("Go is too old: found {}", text.trim());
            (!is_enough).then(|| Missing::new(what, fix))
        }
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Some(Missing::new(
                format!("failed to run Go: {}", stderr.trim()),
                fix,
            ))
        }
        Err(_) => Some(Missing::new("Go was not found on PATH", fix)),
    })
}

/// The newest Go version that a module of the testbed requires.
fn required() -> anyhow::Result<Version> {
    let folder = shell::root().join("tests/toolchain/go");
    let mut newest = (0, 0, 0);
    for module in std::fs::read_dir(&folder).context("failed to list the Go modules")? {
        let file = module?.path().join("go.mod");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("go "));
        let version = line
            .and_then(parse)
            .with_context(|| format!("{} has no line `go <version>`", file.display()))?;
        newest = newest.max(version);
    }
    Ok(newest)
}

/// Parses `1.26.0` and `go1.26.8`. Suffixes of a number, such as `rc1`, are ignored.
fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.trim_start_matches("go").split('.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse::<u32>().ok()
    });
    let major = numbers.next()??;
    let minor = numbers.next()??;
    let patch = numbers.next().flatten().unwrap_or(0);
    Some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_as_go_prints_them() {
        assert_eq!(parse("go1.26.8"), Some((1, 26, 8)));
        assert_eq!(parse("1.26.0"), Some((1, 26, 0)));
        assert_eq!(parse("go1.27rc1"), Some((1, 27, 0)));
        assert_eq!(parse("devel"), None);
    }
}

//! `cargo xtask test`: runs every check, the fastest first.

use crate::control_plane::Testbed;
use crate::{artifacts, boundaries, oracle, shell, tools};

/// Runs all checks, and prints the number of passed and failed tests last.
pub fn run() -> anyhow::Result<()> {
    let cache = shell::cache()?;
    shell::step(
        "formatting",
        &mut shell::cargo(&["fmt", "--all", "--check"]),
    )?;
    eprintln!("==> dependencies of the core");
    boundaries::check()?;
    shell::step(
        "clippy",
        &mut shell::cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    shell::step(
        "llsd without the network feature, as the demo builds it",
        &mut shell::cargo(&[
            "check",
            "--package",
            "llsd",
            "--no-default-features",
            "--quiet",
        ]),
    )?;
    shell::step(
        "build everything, tests included",
        &mut shell::cargo(&[
            "test",
            "--workspace",
            "--all-targets",
            "--no-run",
            "--quiet",
        ]),
    )?;
    let artifacts = artifacts::built();
    let plugins = artifacts.plugins()?;
    artifacts.generate(true)?;
    let oracle = oracle::ensure_oracle(&cache)?;
    let testbed = Testbed::built(&cache);
    let binaries = testbed.ensure_control_plane()?;

    let mut tests = shell::cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    tests
        .env("LLSD_CACHE", &cache)
        .env("LLSD_BIN", shell::target().join("debug/llsd"))
        // Not the running program: building the tests has replaced its file.
        .env("LLSD_XTASK", shell::target().join("debug/xtask"))
        .env("LLSD_PLUGINS", &plugins)
        .env("LLSD_ORACLE", cache.join("oracle"))
        .env("LLSD_PYTHON", &oracle.python)
        .env("LLSD_COSIGN_BIN", tools::ensure_cosign(&cache)?)
        .env(
            "LLSD_WASMTIME_BIN",
            tools::ensure_wasmtime(&cache, &oracle.python)?,
        );
    for (variable, name) in [
        ("LLSD_REGISTRY_BIN", "registry"),
        ("LLSD_CRANE_BIN", "crane"),
    ] {
        if let Some(path) = binaries.get(name) {
            tests.env(variable, path);
        }
    }

    let mut counts = Counts::default();
    let result = shell::watch(
        "unit, golden, property, hostile-guest, conformance, registry, control-plane and real-server tests",
        &mut testbed.with_control_planes(&tests),
        |line| counts.read(line),
    );
    println!("{} passed, {} failed", counts.passed, counts.failed);
    result
}

/// The sum of the summary lines of cargo's test runner.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    fn read(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else {
            return;
        };
        let number_before = |word: &str| {
            summary
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += number_before("passed");
        self.failed += number_before("failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_several_runners_are_added() {
        let mut counts = Counts::default();
        counts.read("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        counts.read("some other line: 99 passed");
        counts.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        assert_eq!((counts.passed, counts.failed), (15, 2));
    }
}

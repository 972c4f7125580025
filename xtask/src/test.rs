//! `cargo xtask test`: runs every check, the fastest first.

use std::path::PathBuf;

use crate::control_plane::Testbed;
use crate::prerequisites::{self, CHROMEDRIVER};
use crate::{artifacts, boundaries, node, oracle, shell, tools};

/// The package whose tests need a real node, and its test programs.
const NODE_TESTS: &str = "llsd-node";
const NODE_TARGETS: [&str; 3] = ["node_lifecycle", "node_servers", "node_install"];

/// The package whose tests need a browser, and its test program.
const BROWSER_TESTS: &str = "llsd-explore";
const BROWSER_TARGETS: [&str; 1] = ["browser"];

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
    artifacts.deny()?;
    let plugins = artifacts.plugins()?;
    artifacts.generate(true)?;
    let oracle = oracle::ensure_oracle(&cache)?;
    let testbed = Testbed::built(&cache);
    let binaries = testbed.ensure_control_plane()?;

    let environment = [
        ("LLSD_CACHE", cache.clone()),
        ("LLSD_BIN", shell::target().join("debug/llsd")),
        // Not the running program: building the tests has replaced its file.
        ("LLSD_XTASK", shell::target().join("debug/xtask")),
        ("LLSD_PLUGINS", plugins),
        ("LLSD_ORACLE", cache.join("oracle")),
        ("LLSD_COSIGN_BIN", tools::ensure_cosign(&cache)?),
        (
            "LLSD_WASMTIME_BIN",
            tools::ensure_wasmtime(&cache, &oracle.python)?,
        ),
        ("LLSD_NODE_BIN", tools::ensure_node(&cache, &oracle.python)?),
        (
            "LLSD_ZIG_BIN",
            tools::ensure_c_compiler(&cache, &oracle.python)?,
        ),
        ("LLSD_PYTHON", oracle.python),
    ];
    let programs = [
        ("LLSD_REGISTRY_BIN", "registry"),
        ("LLSD_CRANE_BIN", "crane"),
        ("LLSD_KUBECTL_BIN", "kubectl"),
    ];
    let programs = programs.map(|(variable, name)| Some((variable, binaries.get(name)?.clone())));
    let environment: Vec<_> = environment
        .into_iter()
        .chain(programs.into_iter().flatten())
        .collect();

    let mut counts = Counts::default();
    let mut tests = shell::cargo(&[
        "test",
        "--workspace",
        "--exclude",
        NODE_TESTS,
        "--exclude",
        BROWSER_TESTS,
        "--all-targets",
        "--no-fail-fast",
    ]);
    tests.envs(environment.clone());
    let result = shell::watch(
        "unit, golden, property, hostile-guest, conformance, registry, control-plane and real-server tests",
        &mut testbed.with_control_planes(&tests),
        |line| counts.read(line),
    );
    let browser = run_browser_tests(environment.clone(), &mut counts);
    let node = run_node_tests(&testbed, environment, &mut counts);
    println!("{} passed, {} failed", counts.passed, counts.failed);
    result.and(browser).and(node)
}

/// Runs the tests that need a browser, or says why they are left out. In CI they are never left out.
fn run_browser_tests(
    mut environment: Vec<(&str, PathBuf)>,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let Some(driver) = prerequisites::find_program(CHROMEDRIVER) else {
        let reason = "chromedriver was not found; install chromium and chromium-driver";
        anyhow::ensure!(!node::is_ci(), "the browser tests cannot run: {reason}");
        println!("browser tests left out: {reason}");
        return Ok(());
    };
    environment.push(("LLSD_CHROMEDRIVER_BIN", driver));
    environment.push(("LLSD_SCREENSHOTS", shell::target().join("screenshots")));
    run_targets("browser tests", &BROWSER_TARGETS, environment, counts)
}

/// Runs the tests that need a real node, or says why they are left out. In CI they are never left out.
fn run_node_tests(
    testbed: &Testbed<'_>,
    environment: Vec<(&str, PathBuf)>,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    if let Some(reason) = testbed.node_problem()? {
        anyhow::ensure!(!node::is_ci(), "the node tests cannot run: {reason}");
        println!("node tests left out: {reason}");
        return Ok(());
    }
    run_targets("node tests", &NODE_TARGETS, environment, counts)
}

/// Runs some test programs.
fn run_targets(
    what: &str,
    targets: &[&str],
    environment: Vec<(&str, PathBuf)>,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    // Selected by target and not by package, which would build dependencies with other features.
    let mut tests = shell::cargo(&["test", "--workspace", "--no-fail-fast"]);
    for target in targets {
        tests.args(["--test", target]);
    }
    tests.envs(environment);
    shell::watch(what, &mut tests, |line| counts.read(line))
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

//! `cargo xtask test`: runs every check.
//!
//! Programs in Go are built and packages installed while cargo builds the tests. Then test programs run several
//! at a time.

mod program;
mod runner;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::ScopedJoinHandle;

use anyhow::{Context, ensure};
use llsd_toolchain::{Tool, ensure_built};

use crate::control_plane::Testbed;
use crate::prerequisites::{self, CHROMEDRIVER};
use crate::{artifacts, boundaries, node, oracle, shell, tools};
use program::{Shared, TestProgram};

/// Runs all checks, and prints the number of passed and failed tests last.
pub fn run() -> anyhow::Result<()> {
    let cache = shell::cache()?;
    shell::step(
        "formatting",
        &mut shell::cargo(&["fmt", "--all", "--check"]),
    )?;
    eprintln!("==> dependencies of the core");
    boundaries::check()?;

    let (go_programs, packages, rust) = std::thread::scope(|scope| {
        let go_programs = scope.spawn(|| ensure_built(&cache, &Tool::ALL));
        let packages = scope.spawn(|| install_packages(&cache));
        let rust = prepare_rust();
        (joined(go_programs), joined(packages), rust)
    });
    let (mut programs, plugins) = rust?;
    let mut environment = environment(&cache, packages?, plugins)?;
    for (tool, path) in Tool::ALL.into_iter().zip(go_programs?) {
        if let Some(variable) = variable(tool) {
            environment.push((variable.to_owned(), text(&path)?));
        }
    }

    let testbed = Testbed::built(&cache);
    if let Some(driver) = browser_driver()? {
        environment.push(("LLSD_CHROMEDRIVER_BIN".to_owned(), text(&driver)?));
    } else {
        programs.retain(|program| program.shared() != Some(Shared::Browser));
    }
    if !can_run_node(&testbed)? {
        programs.retain(|program| program.shared() != Some(Shared::Node));
    }
    // The longest chains first, and what runs alone last.
    programs.sort_by_key(|program| {
        let chain = match program.shared() {
            Some(Shared::ControlPlane) => 0,
            Some(Shared::Servers) => 1,
            Some(Shared::Node | Shared::Browser) | None => 2,
        };
        (program.runs_alone(), chain)
    });

    let control_planes = testbed.start_control_planes()?;
    environment.extend(control_planes.variables.clone());
    let summary = runner::run(programs, &environment)?;
    drop(control_planes);
    for flaky in &summary.flaky {
        println!("FLAKY, passed only when run again: {flaky}");
    }
    for failure in &summary.failures {
        println!("FAILED: {failure}");
    }
    println!("{} passed, {} failed", summary.passed, summary.failed);
    ensure!(
        summary.failures.is_empty(),
        "{} of the test programs failed; see their messages above",
        summary.failures.len()
    );
    Ok(())
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Builds, lints and checks everything in Rust. Returns the test programs, and the folder of the plugins.
fn prepare_rust() -> anyhow::Result<(Vec<TestProgram>, PathBuf)> {
    let programs = build()?;
    let artifacts = artifacts::built();
    artifacts.deny()?;
    let plugins = artifacts.plugins()?;
    artifacts.generate(true)?;
    Ok((programs, plugins))
}

/// What is installed from packages.
struct Packages {
    python: PathBuf,
    wasmtime: PathBuf,
    node: PathBuf,
    zig: PathBuf,
}

/// Installs server packages and compilers.
fn install_packages(cache: &Path) -> anyhow::Result<Packages> {
    let oracle = oracle::ensure_oracle(cache)?;
    Ok(Packages {
        wasmtime: tools::ensure_wasmtime(cache, &oracle.python)?,
        node: tools::ensure_node(cache, &oracle.python)?,
        zig: tools::ensure_c_compiler(cache, &oracle.python)?,
        python: oracle.python,
    })
}

/// The variables by which tests find other programs.
fn environment(
    cache: &Path,
    packages: Packages,
    plugins: PathBuf,
) -> anyhow::Result<Vec<(String, String)>> {
    let paths = [
        ("LLSD_CACHE", cache.to_owned()),
        ("LLSD_BIN", shell::target().join("debug/llsd")),
        // Not the running program: building the tests has replaced its file.
        ("LLSD_XTASK", shell::target().join("debug/xtask")),
        ("LLSD_PLUGINS", plugins),
        ("LLSD_ORACLE", cache.join("oracle")),
        ("LLSD_SCREENSHOTS", shell::target().join("screenshots")),
        ("LLSD_WASMTIME_BIN", packages.wasmtime),
        ("LLSD_NODE_BIN", packages.node),
        ("LLSD_ZIG_BIN", packages.zig),
        ("LLSD_PYTHON", packages.python),
    ];
    let variables = paths.into_iter();
    variables
        .map(|(name, path)| Ok((name.to_owned(), text(&path)?)))
        .collect()
}

/// Builds the whole workspace, and returns the test programs.
fn build() -> anyhow::Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    shell::watch(
        "lint and build everything, tests included",
        &mut linting_build(&["--all-targets"]),
        |message| {
            programs.extend(TestProgram::from_message(message)?);
            Ok(())
        },
    )?;
    ensure!(!programs.is_empty(), "cargo named no test program");
    // Dependencies have the features that the whole workspace needs, so that they are not built again.
    shell::watch(
        "lint and build llsd without the network feature, as the demo does",
        &mut linting_build(&["--bin", "llsd", "--no-default-features"]),
        |_| Ok(()),
    )?;
    Ok(programs)
}

/// A build of tests with clippy as the compiler of the workspace, warnings denied.
///
/// `cargo clippy` would check every dependency first, which takes as long as half a build, and leaves
/// nothing that a build can use. As the wrapper of rustc, clippy lints and generates code in one pass.
fn linting_build(arguments: &[&str]) -> Command {
    let mut build = shell::cargo(&["test", "--workspace", "--no-run", "--quiet"]);
    build.args(arguments);
    build.arg("--message-format=json-render-diagnostics");
    build.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // Separated as `cargo clippy` does it.
    build.env(
        "CLIPPY_ARGS",
        "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    build
}

/// The variable with the path of a Go program that tests start themselves.
fn variable(tool: Tool) -> Option<&'static str> {
    match tool {
        Tool::Registry => Some("LLSD_REGISTRY_BIN"),
        Tool::Crane => Some("LLSD_CRANE_BIN"),
        Tool::Kubectl => Some("LLSD_KUBECTL_BIN"),
        Tool::Cosign => Some("LLSD_COSIGN_BIN"),
        Tool::Mongodb => Some("LLSD_MONGODB_BIN"),
        _ => None,
    }
}

/// The program that controls the browser. Without one, says that the browser tests are left out; in CI
/// they are never left out.
fn browser_driver() -> anyhow::Result<Option<PathBuf>> {
    let driver = prerequisites::find_program(CHROMEDRIVER);
    if driver.is_none() {
        let reason = "chromedriver was not found; install chromium and chromium-driver";
        ensure!(!node::is_ci(), "the browser tests cannot run: {reason}");
        println!("browser tests left out: {reason}");
    }
    Ok(driver)
}

/// Whether a real node can run. If not, says that its tests are left out; in CI they are never left out.
fn can_run_node(testbed: &Testbed<'_>) -> anyhow::Result<bool> {
    let problem = testbed.node_problem()?;
    if let Some(reason) = &problem {
        ensure!(!node::is_ci(), "the node tests cannot run: {reason}");
        println!("node tests left out: {reason}");
    }
    Ok(problem.is_none())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str();
    let text = text.with_context(|| format!("the path {} is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

//! Checks the prerequisites of a task before anything is compiled.
//!
//! In: the prerequisites of a task. Out: one error that lists everything that is missing, each with its
//! fix. Targets and components of the Rust toolchain are installed with rustup.

mod go;
mod packages;
mod python;
mod resources;

use std::fmt;
use std::process::Command;

use llsd_wasm_target::{TARGET, Toolchain};

use crate::shell;

pub use packages::{CHROMEDRIVER, NODE, Package, TESTS, find_program};
pub use python::find as find_python;

/// The prerequisites of a task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    /// The Rust target that adapters are compiled for.
    pub wasm_target: bool,
    /// Other Rust targets.
    pub rust_targets: &'static [&'static str],
    /// Components of the Rust toolchain.
    pub components: &'static [Component],
    /// Go, for the programs of the control plane and the registry.
    pub go: bool,
    /// Python 3.12, for the real server packages.
    pub python: bool,
    /// Packages of the distribution, which are installed if this runs as root.
    pub packages: &'static [Package],
    /// Whether the task can do without `packages`.
    pub are_packages_optional: bool,
    /// Space for the first build in cargo's target folder.
    pub target_gib: u64,
    /// Space for the cache outside the checkout.
    pub cache_gib: u64,
    /// Memory that compilers and tests use at the same time.
    pub memory_gib: u64,
}

/// A component of the Rust toolchain, by the program that it installs.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// Name for `rustup component add`.
    pub name: &'static str,
    /// One of its programs.
    pub program: &'static str,
}

/// Formats sources.
pub const RUSTFMT: Component = Component {
    name: "rustfmt",
    program: "cargo-fmt",
};
/// Lints sources.
pub const CLIPPY: Component = Component {
    name: "clippy",
    program: "cargo-clippy",
};
/// Reads coverage profiles.
pub const LLVM_TOOLS: Component = Component {
    name: "llvm-tools",
    program: "llvm-cov",
};

/// A missing prerequisite and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    what: String,
    fix: String,
}

impl Missing {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            fix: fix.into(),
        }
    }
}

/// All missing prerequisites of a task.
#[derive(Debug)]
struct Unmet {
    task: String,
    missing: Vec<Missing>,
}

impl fmt::Display for Unmet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, missing } = self;
        write!(formatter, "`cargo xtask {task}` cannot start:")?;
        for Missing { what, fix } in missing {
            write!(formatter, "\n\n  {what}\n    fix: {fix}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unmet {}

/// Installs what rustup and apt-get can install, and fails with a list of everything else that is
/// missing.
pub fn ensure(task: &str, needs: &Needs) -> anyhow::Result<()> {
    let mut missing = rust(needs);
    if needs.go {
        missing.extend(go::check()?);
    }
    if needs.python && find_python().is_none() {
        missing.push(Missing::new(
            "Python 3.12 with its venv module was not found: the server packages need this version",
            "install Python 3.12 (Debian: python3.12 and python3.12-venv), or set PYTHON to its path",
        ));
    }
    missing.extend(resources::check(needs)?);
    if missing.is_empty() {
        // Last, so that nothing is installed for a task that cannot start.
        let not_installed = packages::install(needs.packages);
        missing.extend(not_installed.filter(|_| !needs.are_packages_optional));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unmet {
        task: task.to_owned(),
        missing,
    }
    .into())
}

/// Checks the Rust toolchain, and installs missing targets and components.
fn rust(needs: &Needs) -> Vec<Missing> {
    let Needs {
        wasm_target,
        rust_targets,
        components,
        ..
    } = *needs;
    if !wasm_target && rust_targets.is_empty() && components.is_empty() {
        return Vec::new();
    }
    let toolchain = match Toolchain::of(&Toolchain::rustc(), &shell::root()) {
        Ok(toolchain) => toolchain,
        Err(error) => return vec![Missing::new(error.to_string(), "install Rust with rustup")],
    };
    let mut missing = Vec::new();
    if wasm_target && let Err(error) = toolchain.check_target() {
        let what = format!("the Rust target {TARGET} is not installed");
        missing.extend(install(
            &toolchain,
            "target",
            TARGET,
            Missing::new(what, error.fix()),
        ));
    }
    for target in rust_targets.iter().filter(|target| !has_target(target)) {
        let what = format!("the Rust target {target} is not installed");
        let fix = format!("run `rustup target add {target}`");
        missing.extend(install(
            &toolchain,
            "target",
            target,
            Missing::new(what, fix),
        ));
    }
    for Component { name, program } in components {
        if toolchain.has_program(program) {
            continue;
        }
        let fix = match toolchain.rustup_name() {
            Some(toolchain) => format!("run `rustup component add {name} --toolchain {toolchain}`"),
            None => format!("install your distribution's package {name}, or Rust with rustup"),
        };
        let what = format!("the Rust component {name} is not installed");
        missing.extend(install(
            &toolchain,
            "component",
            name,
            Missing::new(what, fix),
        ));
    }
    missing
}

/// Whether the toolchain of the checkout has the standard library for `target`.
fn has_target(target: &str) -> bool {
    let mut rustc = Command::new(Toolchain::rustc());
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = rustc.current_dir(shell::root()).output();
    output.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && std::path::Path::new(&folder).is_dir()
    })
}

/// Installs a target or component with rustup. Returns `missing` if that fails.
fn install(toolchain: &Toolchain, kind: &str, name: &str, missing: Missing) -> Option<Missing> {
    let Some(toolchain) = toolchain.rustup_name() else {
        return Some(missing);
    };
    eprintln!("==> installing the Rust {kind} {name} with rustup (toolchain {toolchain})");
    let mut rustup = Command::new("rustup");
    rustup.args([kind, "add", name, "--toolchain", toolchain]);
    match rustup.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let reason = stderr.trim().replace('\n', "\n    ");
            Some(Missing::new(
                format!(
                    "{}, and rustup failed to install it:\n    {reason}",
                    missing.what
                ),
                missing.fix,
            ))
        }
        Err(_) => Some(Missing::new(
            format!("{}, and rustup is not on PATH", missing.what),
            missing.fix,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_listed_with_its_fix() {
        let unmet = Unmet {
            task: "test".to_owned(),
            missing: vec![
                Missing::new("Go was not found on PATH", "install Go 1.26 or later"),
                Missing::new("Python 3.12 was not found", "install Python 3.12"),
            ],
        };
        assert_eq!(
            unmet.to_string(),
            "`cargo xtask test` cannot start:\n\n  Go was not found on PATH\n    fix: install Go 1.26 or \
             later\n\n  Python 3.12 was not found\n    fix: install Python 3.12"
        );
    }
}

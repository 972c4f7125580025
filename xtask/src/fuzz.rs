//! `cargo xtask fuzz`: runs the tests that read generated input, for a given time each.
//!
//! A target is an ordinary property test. `cargo xtask test` runs it with proptest's default number of
//! cases. This task sets `PROPTEST_CASES` and repeats it with new seeds until the time is over. proptest
//! prints the smallest failing input, and stores its seed beside the test, so that every later run
//! repeats it. A target must use `ProptestConfig::default()`, which reads that variable.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use crate::shell;

/// Cases of one round: about the time that it takes to start the test.
const CASES: &str = "4096";

/// A property test of one reader of untrusted bytes.
struct Target {
    /// Its name on the command line: what is read.
    name: &'static str,
    /// The package of the test.
    package: &'static str,
    /// The options that select the test binary: `--lib`, or `--test` and its name.
    binary: &'static [&'static str],
    /// The name of the test function.
    test: &'static str,
}

/// Every target. Add yours here.
const TARGETS: &[Target] = &[
    Target {
        name: "yaml",
        package: "llsd-render",
        binary: &["--test", "properties"],
        test: "any_yaml_is_read_within_the_budget_or_rejected",
    },
    Target {
        name: "admission-object",
        package: "llsd-webhook",
        binary: &["--lib"],
        test: "any_object_is_answered_with_the_uid_of_the_request",
    },
    Target {
        name: "admission-review",
        package: "llsd-webhook",
        binary: &["--lib"],
        test: "any_bytes_are_an_admission_review_or_rejected",
    },
    Target {
        name: "labels",
        package: "llsd-registry",
        binary: &["--lib"],
        test: "any_labels_are_kept_within_their_limits_or_refused",
    },
    Target {
        name: "layer",
        package: "llsd-registry",
        binary: &["--lib"],
        test: "any_layer_is_searched_within_its_limits_or_refused",
    },
    Target {
        name: "bundle",
        package: "llsd-registry",
        binary: &["--lib"],
        test: "any_bundle_counts_only_for_its_repository_or_is_refused",
    },
    Target {
        name: "component",
        package: "llsd-plugin",
        binary: &["--test", "sandbox"],
        test: "any_component_is_inspected_with_a_result_of_limited_size",
    },
];

/// Runs the named target, or all of them, for this many seconds each.
pub fn run(name: Option<&str>, seconds: u64) -> anyhow::Result<()> {
    for target in selected(name)? {
        target.run(Duration::from_secs(seconds))?;
    }
    Ok(())
}

fn selected(name: Option<&str>) -> anyhow::Result<Vec<&'static Target>> {
    let is_selected = |target: &&Target| name.is_none_or(|name| name == target.name);
    let selected: Vec<_> = TARGETS.iter().filter(is_selected).collect();
    if selected.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!(
            "no fuzz target is called {:?}; use one of: {}",
            name.unwrap_or_default(),
            names.join(", ")
        );
    }
    Ok(selected)
}

impl Target {
    fn run(&self, time: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut rounds = 0;
        while rounds == 0 || start.elapsed() < time {
            self.round()?;
            rounds += 1;
        }
        println!("{}: {rounds} rounds of {CASES} cases", self.name);
        Ok(())
    }

    fn round(&self) -> anyhow::Result<()> {
        let mut cargo = shell::cargo(&["test", "--quiet", "--package", self.package]);
        cargo.args(self.binary).arg(self.test);
        cargo.env("PROPTEST_CASES", CASES);
        let mut has_run = false;
        shell::watch(self.name, &mut cargo, |line| {
            println!("{line}");
            has_run |= line.starts_with("test result: ok. 1 passed");
            Ok(())
        })?;
        ensure!(
            has_run,
            "{}: package {} has no test {}; correct TARGETS in xtask/src/fuzz.rs",
            self.name,
            self.package,
            self.test
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The sources of a folder, as one string.
    fn sources(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *all += &std::fs::read_to_string(path).unwrap();
            }
        }
    }

    #[test]
    fn every_fuzz_target_is_a_test_of_its_package() {
        for target in TARGETS {
            let folder = target.package.replace("llsd-", "host/");
            let mut all = String::new();
            sources(&shell::root().join(folder), &mut all);
            let function = format!("fn {}(", target.test);
            assert!(all.contains(&function), "{}: {function}", target.name);
        }
    }

    #[test]
    fn an_unknown_target_is_an_error_with_the_known_ones() {
        let error = selected(Some("yalm")).err().unwrap().to_string();
        assert!(error.contains("\"yalm\""), "{error}");
        assert!(error.contains("use one of: yaml"), "{error}");
    }
}

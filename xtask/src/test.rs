//! `cargo xtask test`: every check there is, cheapest first.

use crate::{generate, guests, shell};

/// Runs them all, and ends with one line that counts the tests.
pub fn run() -> anyhow::Result<()> {
    shell::step("formatting", &mut shell::cargo(&["fmt", "--all", "--check"]))?;
    shell::step(
        "clippy",
        &mut shell::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]),
    )?;
    eprintln!("==> adapters as components");
    let plugins = guests::build_all()?;
    generate::run(true)?;

    let mut counts = Counts::default();
    let mut tests = shell::cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    tests.env("LLSD_PLUGINS", &plugins);
    let result = shell::watch("unit, golden, property, hostile-guest, conformance, control-plane and e2e tests", &mut tests, |line| {
        counts.read(line);
    });
    println!("{} passed, {} failed", counts.passed, counts.failed);
    result
}

/// Sums the summary lines of cargo's test runner.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    fn read(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else { return };
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
    fn summaries_of_several_runners_add_up() {
        let mut counts = Counts::default();
        counts.read("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        counts.read("some other line: 99 passed");
        counts.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        assert_eq!((counts.passed, counts.failed), (15, 2));
    }
}

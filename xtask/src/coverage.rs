//! `cargo xtask coverage`: measures the line coverage of the API and the pure core by their own tests.
//!
//! Not part of `cargo xtask test`, because instrumented code needs a separate build.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure};

use crate::{shell, tools};

/// The measured parts, with the minimum line coverage in percent.
const PARTS: [Part; 3] = [
    Part {
        name: "conversion",
        prefix: "host/api/src/conversion",
        minimum: 100.0,
    },
    Part {
        name: "host/api",
        prefix: "host/api/src/",
        minimum: 90.0,
    },
    Part {
        name: "host/render",
        prefix: "host/render/src/",
        minimum: 90.0,
    },
];

/// The packages whose tests run.
const PACKAGES: [&str; 4] = ["--package", "llsd-api", "--package", "llsd-render"];

struct Part {
    name: &'static str,
    prefix: &'static str,
    minimum: f64,
}

/// How often each line ran, by file in the checkout.
type Lines = BTreeMap<String, BTreeMap<u32, u64>>;

/// Measures and prints the coverage. Fails if a part is below its minimum.
pub fn run() -> anyhow::Result<()> {
    let program = tools::ensure_llvm_cov(&shell::cache()?)?;
    let folder = shell::target().join("coverage");
    std::fs::create_dir_all(&folder)?;
    let report = folder.join("lines.lcov");
    let mut measure = Command::new(program);
    measure
        .arg("llvm-cov")
        .args(PACKAGES)
        .args(["--lcov", "--output-path"])
        .arg(&report)
        .env("CARGO_TARGET_DIR", &folder)
        .current_dir(shell::root());
    shell::step("instrumented tests", &mut measure)?;
    // The compiler writes canonical paths.
    let root = shell::root().canonicalize()?;
    let mut lines = parse(&std::fs::read_to_string(&report)?, &root);
    for (file, lines) in &mut lines {
        remove_unit_tests(lines, &std::fs::read_to_string(root.join(file))?);
    }
    check(&lines)
}

/// Parses an lcov report. Files outside the checkout and test files are skipped.
fn parse(lcov: &str, root: &Path) -> Lines {
    let mut all = Lines::new();
    let mut file = None;
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let inside = Path::new(path).strip_prefix(root).ok();
            file = inside
                .filter(|path| !is_test_file(path))
                .map(|path| path.display().to_string());
        } else if let (Some(file), Some(data)) = (&file, line.strip_prefix("DA:")) {
            let mut numbers = data.split(',').map(str::parse::<u64>);
            if let (Some(Ok(number)), Some(Ok(count))) = (numbers.next(), numbers.next()) {
                let lines = all.entry(file.clone()).or_default();
                *lines.entry(number as u32).or_default() += count;
            }
        }
    }
    all
}

/// Removes the lines of the unit tests at the end of a file. They always run.
fn remove_unit_tests(lines: &mut BTreeMap<u32, u64>, source: &str) {
    let before_tests = source.lines().take_while(|line| *line != "#[cfg(test)]");
    let last = before_tests.count();
    lines.retain(|number, _| *number as usize <= last);
}

fn is_test_file(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str());
    parts.any(|part| part == "tests" || part == "tests.rs")
}

fn check(lines: &Lines) -> anyhow::Result<()> {
    let mut low = Vec::new();
    for Part {
        name,
        prefix,
        minimum,
    } in PARTS
    {
        let files = || lines.iter().filter(|(file, _)| file.starts_with(prefix));
        let counts = files().flat_map(|(_, lines)| lines.values());
        let (reached, total) = counts.fold((0_u32, 0_u32), |(reached, total), count| {
            (reached + u32::from(*count > 0), total + 1)
        });
        ensure!(total > 0, "{name}: no lines were measured");
        let share = 100.0 * f64::from(reached) / f64::from(total);
        println!("{name:<12} {share:6.2} %  {reached} of {total} lines, minimum {minimum} %");
        if share < minimum {
            low.push(name);
            for (file, lines) in files() {
                let missed: Vec<String> = lines
                    .iter()
                    .filter(|(_, count)| **count == 0)
                    .map(|(line, _)| line.to_string())
                    .collect();
                if !missed.is_empty() {
                    println!("    {file}: {}", missed.join(" "));
                }
            }
        }
    }
    if !low.is_empty() {
        bail!("the coverage is too low in {}", low.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LCOV: &str = "SF:/here/host/api/src/a.rs\nDA:1,2\nDA:2,0\nend_of_record\n\
                        SF:/here/host/api/src/a/tests.rs\nDA:1,1\nend_of_record\n\
                        SF:/here/host/api/src/a/tests/b.rs\nDA:1,1\nend_of_record\n\
                        SF:/elsewhere/b.rs\nDA:1,1\nend_of_record\n\
                        SF:/here/host/api/src/a.rs\nDA:2,1\nend_of_record\n";

    #[test]
    fn counts_of_a_line_are_added_and_other_files_are_skipped() {
        let lines = parse(LCOV, Path::new("/here"));
        let expected = BTreeMap::from([(1, 2), (2, 1)]);
        assert_eq!(
            lines,
            Lines::from([("host/api/src/a.rs".to_owned(), expected)])
        );
    }

    #[test]
    fn unit_tests_are_not_counted() {
        let mut lines = BTreeMap::from([(1, 1), (2, 0), (5, 1)]);
        remove_unit_tests(
            &mut lines,
            "fn a() {}\nfn b() {}\n\n#[cfg(test)]\nmod tests {}\n",
        );
        assert_eq!(lines, BTreeMap::from([(1, 1), (2, 0)]));
    }
}

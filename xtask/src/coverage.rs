//! `cargo xtask coverage`: which lines of the API and of the pure core their own tests reach.
//!
//! Not part of `cargo xtask test`, because instrumented code needs a build of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure};

use crate::{shell, tools};

/// What is measured, by folder, and the least share of lines in percent.
const PARTS: [Part; 3] = [
    Part {
        name: "conversion",
        prefix: "host/api/src/conversion",
        least: 100.0,
    },
    Part {
        name: "host/api",
        prefix: "host/api/src/",
        least: 90.0,
    },
    Part {
        name: "host/render",
        prefix: "host/render/src/",
        least: 90.0,
    },
];

/// The packages whose tests run.
const PACKAGES: [&str; 4] = ["--package", "llsd-api", "--package", "llsd-render"];

struct Part {
    name: &'static str,
    prefix: &'static str,
    least: f64,
}

/// By file below the checkout, how often each line ran.
type Lines = BTreeMap<String, BTreeMap<u32, u64>>;

/// Measures, prints, and fails when a part has too little.
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
    // The compiler writes paths without the `..` that ours has.
    let root = shell::root().canonicalize()?;
    let mut lines = read(&std::fs::read_to_string(&report)?, &root);
    for (file, lines) in &mut lines {
        drop_inner_tests(lines, &std::fs::read_to_string(root.join(file))?);
    }
    judge(&lines)
}

/// Reads `lcov` text; files outside the checkout and files of tests do not count.
fn read(lcov: &str, root: &Path) -> Lines {
    let mut all = Lines::new();
    let mut file = None;
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let inside = Path::new(path).strip_prefix(root).ok();
            file = inside
                .filter(|path| !is_of_tests(path))
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

/// Tests stand at the end of what they test, and reach themselves.
fn drop_inner_tests(lines: &mut BTreeMap<u32, u64>, source: &str) {
    let before_tests = source.lines().take_while(|line| *line != "#[cfg(test)]");
    let last = before_tests.count();
    lines.retain(|number, _| *number as usize <= last);
}

fn is_of_tests(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str());
    parts.any(|part| part == "tests" || part == "tests.rs")
}

fn judge(lines: &Lines) -> anyhow::Result<()> {
    let mut low = Vec::new();
    for Part {
        name,
        prefix,
        least,
    } in PARTS
    {
        let files = || lines.iter().filter(|(file, _)| file.starts_with(prefix));
        let counts = files().flat_map(|(_, lines)| lines.values());
        let (reached, total) = counts.fold((0_u32, 0_u32), |(reached, total), count| {
            (reached + u32::from(*count > 0), total + 1)
        });
        ensure!(total > 0, "{name}: nothing was measured");
        let share = 100.0 * f64::from(reached) / f64::from(total);
        println!("{name:<12} {share:6.2} %  {reached} of {total} lines, at least {least} % wanted");
        if share < least {
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
        bail!("too few lines are reached in {}", low.join(", "));
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
    fn counts_of_one_line_add_up_and_others_files_do_not_count() {
        let lines = read(LCOV, Path::new("/here"));
        let expected = BTreeMap::from([(1, 2), (2, 1)]);
        assert_eq!(
            lines,
            Lines::from([("host/api/src/a.rs".to_owned(), expected)])
        );
    }

    #[test]
    fn tests_inside_a_file_do_not_count() {
        let mut lines = BTreeMap::from([(1, 1), (2, 0), (5, 1)]);
        drop_inner_tests(
            &mut lines,
            "fn a() {}\nfn b() {}\n\n#[cfg(test)]\nmod tests {}\n",
        );
        assert_eq!(lines, BTreeMap::from([(1, 1), (2, 0)]));
    }
}

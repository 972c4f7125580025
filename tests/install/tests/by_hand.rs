//! What the guides say to type and no test types: why not, and that cargo, our tasks and our tests know it.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use llsd_install::{Place, blocks_of, checkout, pages, program, sources};
use serde_json::Value;

/// Blocks that are not typed, by page and first command, and why.
const BY_HAND: [(&str, &str, &str); 10] = [
    ("README.md", "cargo xtask demo", DEMO),
    ("CONTRIBUTING.md", "cargo xtask demo", DEMO),
    ("CONTRIBUTING.md", "cargo test -p llsd-render", TESTS),
    ("CONTRIBUTING.md", "cargo xtask plugins", TESTS),
    ("CONTRIBUTING.md", "cargo run -p llsd-testbed", TESTS),
    ("CONTRIBUTING.md", "cargo test -p llsd-testbed", TESTS),
    ("CONTRIBUTING.md", "cargo xtask oracle", TESTS),
    ("CONTRIBUTING.md", "cargo xtask generate", TESTS),
    (
        "CONTRIBUTING.md",
        "LLSD_GOLDEN=rewrite",
        "it changes the checkout",
    ),
    (
        "plugins.md",
        "rustup target add",
        "it fetches, and then builds in the checkout",
    ),
];
const DEMO: &str =
    "it ends in the tests themselves; the demo is typed below, and `up` by the testbed's own tests";
const TESTS: &str = "the tests themselves, which typed so would be built once more with the features of one package";

#[test]
fn only_what_cannot_be_typed_is_left_to_be_typed_by_hand() {
    let mut left: BTreeSet<_> = BY_HAND
        .iter()
        .map(|(page, start, _)| (*page, *start))
        .collect();
    for (page, block) in by_hand() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let entry = left
            .iter()
            .find(|(page, start)| *page == name && block[0].starts_with(start));
        let entry = *entry.unwrap_or_else(|| {
            panic!(
                "{name}: {}: have it typed by a test, or say here why not",
                block[0]
            )
        });
        left.remove(&entry);
    }
    assert_eq!(left, BTreeSet::new(), "no guide has these");
}

#[test]
fn the_demo_shows_what_a_resource_becomes() {
    let demo = run(Command::new(program("LLSD_XTASK").unwrap()).args(["demo", "--built"]));
    let shown = String::from_utf8(demo.stdout).unwrap();
    assert!(
        shown.contains("+      base_url: http://vllm:8000/v1"),
        "{shown}"
    );
}

#[test]
fn what_is_to_be_typed_by_hand_is_known_to_cargo_and_names_tasks_and_tests_that_exist() {
    let workspace = Workspace::read();
    for (page, block) in by_hand() {
        for command in block {
            for part in parts(&command) {
                let known = workspace.knows(&part);
                assert_eq!(known, Ok(()), "{}: {command}", page.display());
            }
        }
    }
}

#[test]
fn every_task_that_a_guide_speaks_of_exists() {
    for page in pages().unwrap() {
        let text = std::fs::read_to_string(&page).unwrap();
        for spoken in text.split("`cargo xtask ").skip(1) {
            let task = spoken.split_once('`').unwrap().0;
            let words: Vec<&str> = task.split_whitespace().collect();
            assert_eq!(is_task(&words), Ok(()), "{}", page.display());
        }
    }
}

/// Every block that is left to people, with its page.
fn by_hand() -> Vec<(PathBuf, Vec<String>)> {
    let of_page = |page: PathBuf| {
        let blocks = blocks_of(&page, |place| place == Place::ByHand).unwrap();
        blocks
            .into_iter()
            .map(move |block| (page.clone(), block.commands))
    };
    pages().unwrap().into_iter().flat_map(of_page).collect()
}

/// The single commands of a line, in words, without comments, quotes and variables set for one command.
fn parts(line: &str) -> Vec<Vec<&str>> {
    let line = line.split_once(" #").map_or(line, |(command, _)| command);
    line.split("&&")
        .map(|part| {
            let words = part.split_whitespace();
            words
                .map(|word| word.trim_matches(|letter| "\"()$".contains(letter)))
                .skip_while(|word| word.contains('='))
                .collect()
        })
        .collect()
}

/// What cargo knows of the checkout.
struct Workspace {
    packages: Vec<Value>,
}

impl Workspace {
    fn read() -> Self {
        let mut cargo = Command::new(env!("CARGO"));
        let metadata = ["metadata", "--no-deps", "--format-version=1", "--offline"];
        let metadata = run(cargo.args(metadata).current_dir(checkout()));
        let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
        Self {
            packages: metadata["packages"].as_array().unwrap().clone(),
        }
    }

    /// Whether a command would do something here, and otherwise why not.
    fn knows(&self, words: &[&str]) -> Result<(), String> {
        match words {
            ["cargo", "xtask", task @ ..] | ["eval", "cargo", "xtask", task @ ..] => is_task(task),
            ["cargo", "test", arguments @ ..] => self.has_test(arguments),
            ["cargo", "build" | "run", arguments @ ..] => {
                self.package(arguments)?;
                for program in values(arguments, "--bin") {
                    find_target(&self.packages, "bin", program)?;
                }
                Ok(())
            }
            ["rustup", "target", "add", target] => {
                let pinned =
                    std::fs::read_to_string(checkout().join("rust-toolchain.toml")).unwrap();
                pinned
                    .contains(target)
                    .then_some(())
                    .ok_or_else(|| format!("{target} is not pinned"))
            }
            ["git", "diff", path] => {
                let exists = checkout().join(path).exists();
                exists
                    .then_some(())
                    .ok_or_else(|| format!("there is no {path}"))
            }
            ["export" | "cd", ..] => Ok(()),
            _ => Err(format!("{words:?}: no check knows it")),
        }
    }

    /// Whether the package and target that the arguments choose have a test, or a module of tests, of
    /// that name.
    fn has_test(&self, arguments: &[&str]) -> Result<(), String> {
        let package = self.package(arguments)?.ok_or("no package is named")?;
        let (kind, name) = match option(arguments, &["--test"]) {
            Some(name) => ("test", name.to_owned()),
            None => ("lib", package["name"].as_str().unwrap().replace('-', "_")),
        };
        let target = find_target([package], kind, &name)?;
        let root = Path::new(target["src_path"].as_str().unwrap());
        let code = match root.file_name().unwrap().to_str() {
            Some("main.rs" | "lib.rs") => sources(root.parent().unwrap()),
            _ => std::fs::read_to_string(root).unwrap(),
        };
        let filter = free(arguments).unwrap_or_default();
        let test = filter.rsplit("::").next().unwrap_or_default();
        let is_there = ["fn ", "mod ", "    ", "\""]
            .iter()
            .any(|before| code.contains(&format!("{before}{test}")));
        is_there
            .then_some(())
            .ok_or_else(|| format!("no test is called {filter:?}"))
    }

    /// The package that the arguments name.
    fn package(&self, arguments: &[&str]) -> Result<Option<&Value>, String> {
        let Some(name) = option(arguments, &["-p", "--package"]) else {
            return Ok(None);
        };
        let found = self.packages.iter().find(|one| one["name"] == name);
        let found = found.ok_or_else(|| format!("no package is called {name:?}"))?;
        Ok(Some(found))
    }
}

/// A target of some packages.
fn find_target<'a>(
    packages: impl IntoIterator<Item = &'a Value>,
    kind: &str,
    name: &str,
) -> Result<&'a Value, String> {
    packages
        .into_iter()
        .flat_map(|package| package["targets"].as_array().unwrap())
        .find(|target| target["kind"][0] == kind && target["name"] == name)
        .ok_or_else(|| format!("no {kind} is called {name:?}"))
}

/// Whether the tasks' own command line has the task that these words begin with, and its help the options
/// that follow.
fn is_task(words: &[&str]) -> Result<(), String> {
    let options = words.iter().position(|word| word.starts_with('-'));
    let (task, options) = words.split_at(options.unwrap_or(words.len()));
    let mut help = Command::new(program("LLSD_XTASK").unwrap());
    let output = help.args(task).arg("--help").output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let help = String::from_utf8(output.stdout).unwrap();
    let mut options = options.iter().filter(|word| word.starts_with('-'));
    let unknown = options.find(|option| !help.contains(**option));
    unknown.map_or(Ok(()), |option| Err(format!("{task:?} has no {option}")))
}

/// The value of an option.
fn option<'a>(arguments: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let pair = arguments.windows(2).find(|pair| names.contains(&pair[0]))?;
    Some(pair[1])
}

/// Every value of an option.
fn values<'a>(arguments: &[&'a str], name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = arguments.windows(2).filter(move |pair| pair[0] == name);
    pairs.map(|pair| pair[1])
}

/// The first word that is neither an option nor the value of one.
fn free<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return Some(word);
        }
        words.next();
    }
    None
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    output
}

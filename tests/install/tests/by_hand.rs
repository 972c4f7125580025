//! The `by-hand` blocks of the guides, which no test runs: each has a reason, and names only packages, tasks
//! and tests that exist.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use llsd_install::{Environment, blocks_of, checkout, pages, program, sources};
use serde_json::Value;

/// The blocks by page and start of their first command, and the reason why no test runs them.
const BY_HAND: &[(&str, &str, &str)] = &[
    ("README.md", "cargo xtask demo", DEMO),
    ("CONTRIBUTING.md", "cargo xtask demo", DEMO),
    ("CONTRIBUTING.md", "cargo test -p llsd-render", TESTS),
    ("CONTRIBUTING.md", "cargo xtask plugins", TESTS),
    ("CONTRIBUTING.md", "cargo run -p llsd-testbed", TESTS),
    ("CONTRIBUTING.md", "cargo test -p llsd-testbed", TESTS),
    ("CONTRIBUTING.md", "cargo build -p llsd", TESTS),
    ("CONTRIBUTING.md", "cargo xtask oracle", TESTS),
    ("CONTRIBUTING.md", "cargo build --workspace", TESTS),
    ("CONTRIBUTING.md", "cargo xtask generate", TESTS),
    (
        "CONTRIBUTING.md",
        "cargo build --workspace --bin llsd && export",
        TESTS,
    ),
    (
        "explore.md",
        "llsd explore",
        "serves a page until Ctrl-C; the tests of llsd and llsd-explore run it",
    ),
    (
        "operations.md",
        "cargo xtask image",
        "builds for release, and copies the image to a registry of the reader",
    ),
    ("releases.md", "sha256sum --check", RELEASE),
    ("releases.md", "helm install", RELEASE),
    ("releases.md", "cosign verify", RELEASE),
    ("releases.md", "git checkout", RELEASE),
    ("releases.md", "cargo xtask release --tag", RELEASE),
    ("releases.md", "cargo xtask release --verify", RELEASE),
    (
        "operations.md",
        "llsd undo",
        "needs a resource that was changed before; the tests of the operator undo such a change",
    ),
    (
        "CONTRIBUTING.md",
        "LLSD_GOLDEN=rewrite",
        "changes the checkout",
    ),
    (
        "plugins.md",
        "rustup target add",
        "downloads a target, and builds in the checkout",
    ),
    (
        "plugins.md",
        "cosign sign -y",
        "needs a token of an OIDC issuer; the tests of keyless signatures have an authority of their own",
    ),
    ("plugins.md", "llsd plugin new acme --lang js", LANGUAGES),
    ("plugins.md", "llsd plugin new acme --lang c", LANGUAGES),
    (
        "CONTRIBUTING.md",
        "cargo xtask plugins diff",
        "needs the archive of the last release",
    ),
];
const DEMO: &str =
    "runs the whole test suite; a test below runs the demo, and the testbed's tests run `up`";
const LANGUAGES: &str =
    "needs the tools of the language; the tests of `llsd plugin new` run these commands";
const RELEASE: &str = "needs a release; the tests of xtask-artifacts make, push and verify one";
const TESTS: &str =
    "runs the tests themselves, which would be built again with the features of one package";

#[test]
fn every_by_hand_block_has_a_reason() {
    let mut remaining: BTreeSet<_> = BY_HAND
        .iter()
        .map(|(page, start, _)| (*page, *start))
        .collect();
    for (page, block) in by_hand() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let entry = remaining
            .iter()
            .filter(|(page, start)| *page == name && block[0].starts_with(start))
            .max_by_key(|(_, start)| start.len());
        let entry = *entry.unwrap_or_else(|| {
            panic!(
                "{name}: {}: no test runs this block; remove `by-hand`, or add a reason to BY_HAND",
                block[0]
            )
        });
        remaining.remove(&entry);
    }
    assert_eq!(remaining, BTreeSet::new(), "no guide has these blocks");
}

#[test]
fn the_demo_shows_the_generated_configuration() {
    let demo = run(Command::new(program("LLSD_XTASK").unwrap()).args(["demo", "--built"]));
    let shown = String::from_utf8(demo.stdout).unwrap();
    assert!(
        shown.contains("+      base_url: http://vllm:8000/v1"),
        "{shown}"
    );
}

#[test]
fn every_by_hand_command_names_existing_packages_tasks_and_tests() {
    let workspace = Workspace::read();
    for (page, block) in by_hand() {
        for command in block {
            for part in parts(&command) {
                let result = workspace.check(&part);
                assert_eq!(result, Ok(()), "{}: {command}", page.display());
            }
        }
    }
}

#[test]
fn every_xtask_command_in_the_guides_exists() {
    for page in pages().unwrap() {
        let text = std::fs::read_to_string(&page).unwrap();
        for mention in text.split("`cargo xtask ").skip(1) {
            let task = mention.split_once('`').unwrap().0;
            let words: Vec<&str> = task.split_whitespace().collect();
            assert_eq!(is_task(&words), Ok(()), "{}", page.display());
        }
    }
}

/// The commands of every `by-hand` block, with its page.
fn by_hand() -> Vec<(PathBuf, Vec<String>)> {
    let of_page = |page: PathBuf| {
        let blocks = blocks_of(&page, |environment| environment == Environment::ByHand).unwrap();
        blocks
            .into_iter()
            .map(move |block| (page.clone(), block.commands))
    };
    pages().unwrap().into_iter().flat_map(of_page).collect()
}

/// Splits a line into commands and words, without comments, quotes and leading variable assignments.
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

/// The packages of the workspace.
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

    /// Checks that a command refers only to things that exist.
    fn check(&self, words: &[&str]) -> Result<(), String> {
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
                    .ok_or_else(|| format!("{target:?} is not in rust-toolchain.toml"))
            }
            ["git", "diff", path] => {
                let exists = checkout().join(path).exists();
                exists
                    .then_some(())
                    .ok_or_else(|| format!("{path:?} not found in the checkout"))
            }
            ["llsd", command, ..] => is_command(command),
            // Programs of others, which are not part of this repository.
            [
                "oras" | "cosign" | "helm" | "kubectl" | "npm" | "sha256sum" | "tar",
                ..,
            ]
            | ["git", "checkout", ..]
            | ["export" | "cd" | "install", ..] => Ok(()),
            _ => Err(format!(
                "{words:?}: unknown command; extend Workspace::check"
            )),
        }
    }

    /// Checks that the selected package and target have a test, or a module of tests, of that name.
    fn has_test(&self, arguments: &[&str]) -> Result<(), String> {
        let package = self
            .package(arguments)?
            .ok_or("the command names no package")?;
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
        let filter = positional(arguments).unwrap_or_default();
        let test = filter.rsplit("::").next().unwrap_or_default();
        let exists = ["fn ", "mod ", "    ", "\""]
            .iter()
            .any(|before| code.contains(&format!("{before}{test}")));
        exists
            .then_some(())
            .ok_or_else(|| format!("test {filter:?} not found"))
    }

    /// The package that the arguments name.
    fn package(&self, arguments: &[&str]) -> Result<Option<&Value>, String> {
        let Some(name) = option(arguments, &["-p", "--package"]) else {
            return Ok(None);
        };
        let found = self.packages.iter().find(|one| one["name"] == name);
        let found = found.ok_or_else(|| format!("package {name:?} not found"))?;
        Ok(Some(found))
    }
}

/// Finds a target in some packages.
fn find_target<'a>(
    packages: impl IntoIterator<Item = &'a Value>,
    kind: &str,
    name: &str,
) -> Result<&'a Value, String> {
    packages
        .into_iter()
        .flat_map(|package| package["targets"].as_array().unwrap())
        .find(|target| target["kind"][0] == kind && target["name"] == name)
        .ok_or_else(|| format!("{kind} {name:?} not found"))
}

/// Checks that `llsd` has a command.
fn is_command(command: &str) -> Result<(), String> {
    let mut llsd = Command::new(program("LLSD_BIN").unwrap());
    let output = llsd.args([command, "--help"]).output().unwrap();
    let exists = output.status.success();
    exists
        .then_some(())
        .ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Checks that `cargo xtask` has the task, and that its help lists the options.
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
    unknown.map_or(Ok(()), |option| {
        Err(format!("{task:?} has no option {option}"))
    })
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
fn positional<'a>(arguments: &[&'a str]) -> Option<&'a str> {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output
}

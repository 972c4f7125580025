//! `docs/specification.md` names files and tests. Each of them exists, and every identifier of the
//! specification has an entry. Files that the other pages name exist too.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;

use llsd_install::{checkout, pages, sources};

/// Folders with the files that the page may name.
const FOLDERS: [&str; 8] = [
    "deploy/",
    "guest-sdk/",
    "host/",
    "plugins/",
    "samples/",
    "tests/",
    "wit/",
    "xtask/",
];

/// Requirements, as the specification numbers them: the first and the last of each range.
const FUNCTIONAL: [(u32, u32); 9] = [
    (1, 14),
    (20, 29),
    (30, 35),
    (40, 44),
    (50, 53),
    (60, 66),
    (70, 75),
    (80, 83),
    (90, 92),
];
const FUNCTIONAL_WITH_LETTER: [&str; 10] = [
    "027a", "027b", "027c", "027d", "027e", "027f", "027g", "050a", "050b", "051a",
];
/// Acceptance scenarios of each user story: all seven stories have three.
const STORIES: u32 = 7;
const SCENARIOS: u32 = 3;
const NON_FUNCTIONAL: u32 = 6;
const EDGE_CASES: u32 = 6;

fn page() -> String {
    std::fs::read_to_string(checkout().join("docs/specification.md")).unwrap()
}

/// What stands in backticks, line by line: a code span of the page never continues on the next line.
fn code_spans(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The entries of the page: the identifier in bold, and the whole text of the entry.
fn entries(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n- **").skip(1).filter_map(|entry| {
        let (id, text) = entry.split_once("**")?;
        let end = text.find("\n\n").unwrap_or(text.len());
        Some((id, &text[..end]))
    })
}

/// Whether a word is the name of a test: these are sentences, so that they have several words.
fn is_test_name(word: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.matches('_').count() > 2 && word.chars().all(is_allowed)
}

fn expected_ids() -> BTreeSet<String> {
    let functional = FUNCTIONAL.iter().flat_map(|(first, last)| *first..=*last);
    let stories =
        (1..=STORIES).flat_map(|story| (1..=SCENARIOS).map(move |one| format!("US {story}.{one}")));
    functional
        .map(|number| format!("FR-{number:03}"))
        .chain(FUNCTIONAL_WITH_LETTER.map(|number| format!("FR-{number}")))
        .chain((1..=NON_FUNCTIONAL).map(|number| format!("NFR-{number:03}")))
        .chain((1..=EDGE_CASES).map(|number| format!("Edge case {number}")))
        .chain(stories)
        .collect()
}

#[test]
fn every_file_that_a_page_names_exists() {
    // A pattern such as `plugins/<name>` or `catalog/*.txt` is not a file.
    let is_file = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains(['<', '*', '{', ' ', '…'])
    };
    let mut missing = BTreeSet::new();
    for page in pages().unwrap() {
        let text = std::fs::read_to_string(&page).unwrap();
        let spans = code_spans(&text).filter(is_file);
        let dead = spans.filter(|path| !checkout().join(path).exists());
        missing.extend(dead.map(|path| (page.display().to_string(), path.to_owned())));
    }
    assert!(missing.is_empty(), "no such file: {missing:#?}");
}

#[test]
fn every_test_that_the_specification_page_names_exists() {
    let page = page();
    let folders = ["guest-sdk", "host", "plugins", "tests"];
    let code = folders.map(|name| sources(&checkout().join(name))).concat();
    let names: BTreeSet<&str> = code
        .lines()
        .filter_map(|line| {
            let line = line.trim().trim_start_matches("pub ");
            let line = line.strip_prefix("async ").unwrap_or(line);
            let name = line.strip_prefix("fn ").unwrap_or(line);
            name.split(['(', '<']).next()
        })
        .collect();
    let named: BTreeSet<&str> = code_spans(&page)
        .filter(|span| is_test_name(span))
        .collect();
    assert!(named.len() > 80, "only {} tests are named", named.len());
    let missing: BTreeSet<_> = named.difference(&names).collect();
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn every_identifier_of_the_specification_has_an_entry_with_a_file_and_a_test() {
    let page = page();
    let ids: BTreeSet<String> = entries(&page).map(|(id, _)| id.to_owned()).collect();
    let missing: BTreeSet<_> = expected_ids().difference(&ids).cloned().collect();
    assert!(missing.is_empty(), "without an entry: {missing:#?}");
    for (id, text) in entries(&page) {
        assert!(text.contains("\n  In `"), "{id}: name the file");
        assert!(text.contains("Shown by `"), "{id}: name the test");
    }
}

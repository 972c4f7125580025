//! The pages refer only to files, headings and tests that exist.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_install::{checkout, pages, sources};

/// The targets of the relative links of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1);
    links
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .filter(|link| !link.contains("://"))
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let keep = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    words
        .chars()
        .filter(keep)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn every_link_points_to_an_existing_file_and_heading() {
    for page in pages().unwrap() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let link_at = format!("{}: {link}", page.display());
            assert!(target.exists(), "{link_at}");
            if !heading.is_empty() {
                let linked = std::fs::read_to_string(&target).unwrap();
                let mut headings = linked.lines().filter(|line| line.starts_with('#'));
                assert!(headings.any(|line| anchor(line) == heading), "{link_at}");
            }
        }
    }
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let folders = ["host", "guest-sdk", "plugins", "tests", "xtask"];
    let code = folders.map(|name| sources(&checkout().join(name))).concat();
    let page = std::fs::read_to_string(checkout().join("docs/security.md")).unwrap();
    let is_test = |word: &&str| {
        let is_name =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        word.matches('_').count() > 2 && word.chars().all(is_name)
    };
    let named: Vec<&str> = page.split('`').filter(is_test).collect();
    assert!(named.len() > 40);
    for test in named {
        // One test binary lists its tests as strings.
        let exists = code.contains(&format!("fn {test}(")) || code.contains(&format!("\"{test}\""));
        assert!(exists, "{test}");
    }
}

//! The licences of everything that is linked into `llsd`, as one text.
//!
//! In: the output of `cargo metadata`. Out: every crate with its licence expression and the licence
//! files of its package. Equal texts are printed once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::package::sbom::{self, Linked};

/// Static binaries also contain the C library and the Rust standard library.
const RUNTIME: &str = "\
musl libc, https://musl.libc.org
    MIT; Copyright © 2005-2020 Rich Felker, et al.
The Rust standard library, https://www.rust-lang.org
    MIT OR Apache-2.0; Copyright © The Rust Project contributors
";

/// How names of licence files begin, in lower case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// The text.
pub fn text(metadata: &Value) -> anyhow::Result<String> {
    let mut list = String::new();
    // By licence text: the crates that have it.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let linked = Linked::of(metadata, sbom::LLSD)?;
    let mut packages: Vec<&Value> = linked.third_party().collect();
    packages.sort_by_key(|package| (string(package, "name"), string(package, "version")));
    for package in packages {
        let name = format!("{} {}", string(package, "name"), string(package, "version"));
        let expression = match string(package, "license") {
            "" => "see its licence file",
            expression => expression,
        };
        list += &format!("{name}\n    {expression}\n");
        let manifest = Path::new(string(package, "manifest_path"));
        let folder = manifest
            .parent()
            .with_context(|| format!("{name} has no folder"))?;
        for text in files(folder)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut whole = format!("llsd contains the following software of others.\n\n{list}\n{RUNTIME}");
    let mut texts: Vec<(Vec<String>, String)> = texts
        .into_iter()
        .map(|(text, names)| (names, text))
        .collect();
    texts.sort();
    for (names, text) in texts {
        let line = "-".repeat(80);
        whole += &format!("\n{line}\n{}\n\n{}\n", names.join(", "), text.trim_end());
    }
    Ok(whole)
}

fn string<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// The licence files of a package, sorted by name.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_source = name.ends_with(".rs");
        if NAMES.iter().any(|start| name.starts_with(start)) && !is_source && entry.path().is_file()
        {
            names.push(entry.path());
        }
    }
    names.sort();
    let read = |path: &std::path::PathBuf| {
        let bytes =
            std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    names.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linked_crate_is_listed_with_its_licence_and_no_path_of_this_machine() {
        let metadata = sbom::metadata().unwrap();
        let text = text(&metadata).unwrap();
        assert!(text.contains("\nwasmtime 48"), "linked");
        assert!(text.contains("Apache License"));
        assert!(!text.contains("\ntempfile "), "a dev dependency");
        assert!(!text.contains("\nllsd-api "), "our own");
        let home = std::env::var("HOME").unwrap();
        assert!(!text.contains(&format!("{home}/.cargo")));
    }
}

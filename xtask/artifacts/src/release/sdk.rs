//! The archive for authors of plugins: SDK, contract, JSON Schemas, conformance suite, and an example.
//!
//! The archive is a cargo workspace, so that the example builds as it is.

use std::collections::BTreeMap;

use anyhow::Context;

use xtask::shell;

use super::read;
use crate::package::add_folder;
use crate::package::archive::Entry;

/// Folders of the checkout that are packed unchanged. The conformance suite is for reading;
/// `llsd plugin test` runs it.
const FOLDERS: [&str; 5] = [
    "wit",
    "guest-sdk/src",
    "guest-sdk/env-expressions",
    "plugins/example-pack",
    "tests/conformance",
];
const FILES: [&str; 5] = [
    "LICENSE",
    "guest-sdk/Cargo.toml",
    "rust-toolchain.toml",
    "docs/plugins.md",
    "docs/glossary.md",
];
const MEMBERS: &str = "members = [\n    \"guest-sdk\",\n    \"guest-sdk/env-expressions\",\n    \"plugins/example-pack\",\n]";

/// The entries of the archive.
pub fn entries() -> anyhow::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for folder in FOLDERS {
        add_folder(&mut entries, &shell::root().join(folder), folder)?;
    }
    for file in FILES {
        entries.insert(file.to_owned(), Entry::file(read(file)?.as_bytes()));
    }
    let manifest = workspace(&read("Cargo.toml")?)?;
    entries.insert("Cargo.toml".to_owned(), Entry::file(manifest.as_bytes()));
    Ok(entries)
}

/// The manifest of our workspace with the members that the archive has, and without the profiles of
/// packages that it does not have.
fn workspace(manifest: &str) -> anyhow::Result<String> {
    let (before, rest) = manifest
        .split_once("members = [")
        .context("Cargo.toml has no list of members")?;
    let (_, after) = rest
        .split_once("\n]")
        .context("the list of members in Cargo.toml does not end")?;
    let whole = format!("{before}{MEMBERS}{after}");
    let sections = whole.split("\n[profile.");
    let of_sdk = "guest.package.llsd-adapter-sdk]";
    let is_wanted = |section: &&str| section.starts_with(of_sdk) || !section.contains(".package");
    let mut kept = String::new();
    for (index, section) in sections.enumerate() {
        if index == 0 {
            kept += section;
        } else if is_wanted(&section) {
            kept += "\n[profile.";
            kept += section;
        }
    }
    Ok(kept.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_contract_its_schemas_the_sdk_and_a_workspace() {
        let entries = entries().unwrap();
        for path in [
            "Cargo.toml",
            "LICENSE",
            "wit/v1.0.0/adapter.wit",
            "guest-sdk/Cargo.toml",
            "guest-sdk/src/lib.rs",
            "plugins/example-pack/src/lib.rs",
            "tests/conformance/src/lib.rs",
        ] {
            assert!(entries.contains_key(path), "{path}");
        }
        assert!(
            entries
                .keys()
                .any(|path| path.starts_with("wit/v1.0.0/schemas/"))
        );
    }

    #[test]
    fn the_workspace_has_the_members_of_the_archive_and_the_profile_of_plugins() {
        let manifest = workspace(&read("Cargo.toml").unwrap()).unwrap();
        assert!(manifest.contains(MEMBERS));
        assert!(!manifest.contains("host/cli\""));
        assert!(manifest.contains("\n[profile.guest]\n"));
        assert!(manifest.contains("\n[profile.guest.package.llsd-adapter-sdk]\n"));
        assert!(!manifest.contains("[profile.dev.package"));
    }
}

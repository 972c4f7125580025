//! Embeds what `llsd plugin new` writes: the SDK, the contract, and the examples in other languages.
//!
//! A vendor has only the binary, so the sources travel with it. The manifest of the SDK inherits from
//! this workspace; the embedded one states everything itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    // The folders of this run, not of the build: a checkout can be moved.
    let folder = |name: &str| PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let root = folder("CARGO_MANIFEST_DIR").join("../..");
    let out = folder("OUT_DIR");
    println!("cargo::rerun-if-changed=build.rs");

    let manifest = out.join("sdk-Cargo.toml");
    let text = standalone(
        &read(&root.join("guest-sdk/Cargo.toml")),
        &read(&root.join("Cargo.toml")),
    );
    std::fs::write(&manifest, text).expect("failed to write the SDK's manifest");
    println!(
        "cargo::rerun-if-changed={}",
        root.join("guest-sdk/Cargo.toml").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        root.join("Cargo.toml").display()
    );

    let mut sdk = vec![("Cargo.toml".to_owned(), manifest)];
    files(&root.join("guest-sdk/src"), "src", &mut sdk);
    let mut code = constant("SDK", "The SDK, as a package of its own.", &sdk);
    for (name, doc, folder) in [
        (
            "WIT",
            "The contract, and the JSON Schemas of its documents.",
            "wit/v1.0.0",
        ),
        (
            "JAVASCRIPT",
            "The example adapter in JavaScript.",
            "plugins/examples/js",
        ),
        (
            "JAVASCRIPT_PACK",
            "What a provider pack in JavaScript has instead.",
            "plugins/examples/js-pack",
        ),
        ("C", "The example adapter in C.", "plugins/examples/c"),
    ] {
        let mut found = Vec::new();
        files(&root.join(folder), "", &mut found);
        code += &constant(name, doc, &found);
    }
    std::fs::write(out.join("embedded.rs"), code).expect("failed to write the list of files");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("failed to read {}: {error}", path.display()))
}

/// Adds the files below `folder`, by their paths below `prefix`, without what tools left there.
fn files(folder: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("failed to read {}: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let below = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}/{name}")
        };
        if !path.is_dir() {
            found.push((below, path));
        } else if !["node_modules", "target"].contains(&name.as_str()) {
            files(&path, &below, found);
        }
    }
}

fn constant(name: &str, doc: &str, files: &[(String, PathBuf)]) -> String {
    let mut code = format!("/// {doc}\npub(crate) const {name}: &[(&str, &str)] = &[\n");
    for (path, source) in files {
        let _ = writeln!(
            code,
            "    ({path:?}, include_str!({:?})),",
            source.display().to_string()
        );
    }
    code + "];\n"
}

/// The manifest of a package without the workspace that it inherits from.
///
/// Handles the forms that the two manifests use: one line for each key.
fn standalone(package: &str, workspace: &str) -> String {
    let entry = |table: &str, key: &str| {
        let lines = workspace.lines().skip_while(|line| *line != table).skip(1);
        let mut lines = lines.take_while(|line| !line.starts_with('['));
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        value
            .unwrap_or_else(|| panic!("{table} has no {key}"))
            .to_owned()
    };
    let mut lines: Vec<String> = Vec::new();
    for line in package.lines() {
        if let Some(key) = line.strip_suffix(".workspace = true") {
            lines.push(format!("{key} = {}", entry("[workspace.package]", key)));
        } else if let Some((key, rest)) = line.split_once(" = { workspace = true") {
            let value = entry("[workspace.dependencies]", key);
            let fields = match value
                .strip_prefix('{')
                .and_then(|value| value.strip_suffix('}'))
            {
                Some(fields) => fields.trim().to_owned(),
                None => format!("version = {value}"),
            };
            lines.push(format!("{key} = {{ {fields}{rest}"));
        } else if line == "workspace = true" {
            // Of the table of lints.
            assert_eq!(
                lines.pop().as_deref(),
                Some("[lints]"),
                "an unknown table inherits"
            );
        } else {
            lines.push(line.to_owned());
        }
    }
    let text = lines.join("\n") + "\n";
    assert!(
        !text.contains("workspace"),
        "the manifest still inherits: {text}"
    );
    text
}

//! `cargo xtask plugins diff`: compares every plugin with the one of the last release.
//!
//! Each plugin answers its recorded requests, and the schema adapters generate every sample. A difference
//! fails, unless `plugins/expected-differences.json` explains it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use xtask::shell;

use crate::plugins;

/// By plugin and case, why the case differs from the last release. The entries of a plugin are deleted
/// after its next release.
type Explained = BTreeMap<String, BTreeMap<String, String>>;

const EXPLAINED: &str = "plugins/expected-differences.json";

/// Builds the plugins, and compares them with those in `released`.
pub fn run(released: &Path) -> anyhow::Result<()> {
    let built = plugins::build_all()?;
    let text = std::fs::read_to_string(shell::root().join(EXPLAINED))
        .with_context(|| format!("failed to read {EXPLAINED}"))?;
    let explained = parse(&text)?;
    let mut differing = Vec::new();
    let mut compared = 0;
    for plugins::Plugin { name, .. } in plugins::all()? {
        let (old, new) = (
            released.join(format!("{name}.wasm")),
            built.join(format!("{name}.wasm")),
        );
        if !old.is_file() {
            println!("{name}: not in the last release");
            continue;
        }
        compared += 1;
        println!("{name}:");
        let mut diff = Command::new(shell::target().join("debug/llsd"));
        diff.args(["plugin", "diff"]).arg(old).arg(new);
        diff.arg("--fixtures").arg(
            shell::root()
                .join("plugins")
                .join(&name)
                .join("tests/golden"),
        );
        diff.arg("--corpus").arg(shell::root().join("samples"));
        for case in explained.get(&name).into_iter().flat_map(BTreeMap::keys) {
            diff.args(["--expect", case]);
        }
        match diff.status().context("failed to start llsd")?.code() {
            Some(0) => {}
            Some(1) => differing.push(name),
            _ => bail!("{name}: llsd plugin diff failed; see its messages above"),
        }
    }
    ensure!(
        compared > 0,
        "{} has none of the plugins; pass the folder `plugins` of a release archive",
        released.display()
    );
    ensure!(
        differing.is_empty(),
        "{} differ from the last release; if that is intended, explain each case in {EXPLAINED}",
        differing.join(", ")
    );
    Ok(())
}

/// Reads the explanations. Each must say something.
fn parse(text: &str) -> anyhow::Result<Explained> {
    let explained: Explained = serde_json::from_str(text)
        .with_context(|| format!("{EXPLAINED} must have the form {{plugin: {{case: reason}}}}"))?;
    for (plugin, cases) in &explained {
        for (case, reason) in cases {
            ensure!(
                !reason.trim().is_empty(),
                "{EXPLAINED}: {plugin}, {case}: the reason is empty"
            );
        }
    }
    Ok(explained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_has_a_reason() {
        let explained = parse(r#"{"ogx": {"1.0-full": "reads the new key"}}"#).unwrap();
        assert_eq!(explained["ogx"]["1.0-full"], "reads the new key");
        let error = parse(r#"{"ogx": {"1.0-full": " "}}"#).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("ogx, 1.0-full: the reason is empty")
        );
        assert!(parse("[]").is_err());
    }

    #[test]
    fn the_committed_explanations_are_valid() {
        let path = shell::root().join(EXPLAINED);
        parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    }
}

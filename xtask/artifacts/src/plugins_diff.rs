//! `cargo xtask plugins diff`: compares every plugin with the one of the last release.
//!
//! Each plugin answers its recorded requests, and generates every sample, and the first sample on every
//! configuration that the server releases ship. A difference fails, unless
//! `plugins/expected-differences.json` explains it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use llsd_env_expressions::{Form, expressions};
use serde_json::{Value, json};

use xtask::shell;

use crate::plugins;

/// By plugin and case, why the case differs from the last release. The entries of a plugin are deleted
/// after its next release.
type Explained = BTreeMap<String, BTreeMap<String, String>>;

const EXPLAINED: &str = "plugins/expected-differences.json";

/// Builds the plugins, and compares them with those in `released`. `bases` has a directory for each server
/// release, with one for each distribution.
pub fn run(released: &Path, bases: &Path) -> anyhow::Result<()> {
    let built = plugins::build_all()?;
    let text = fs::read_to_string(shell::root().join(EXPLAINED))
        .with_context(|| format!("failed to read {EXPLAINED}"))?;
    let explained = parse(&text)?;
    let shipped = tempfile::tempdir()?;
    write_shipped_cases(bases, shipped.path())?;
    let mut differing = Vec::new();
    let mut compared = 0;
    for plugins::Plugin { name, .. } in plugins::all()? {
        let file = format!("{name}.wasm");
        let (old, new) = (released.join(&file), built.join(&file));
        if !old.is_file() {
            println!("{name}: not in the last release");
            continue;
        }
        compared += 1;
        let fixtures = shell::root()
            .join("plugins")
            .join(&name)
            .join("tests/golden");
        let samples = shell::root().join("samples");
        for (option, folder) in [
            ("--fixtures", fixtures.as_path()),
            ("--corpus", &samples),
            ("--corpus", shipped.path()),
        ] {
            println!("{name}: {}", folder.display());
            let mut diff = Command::new(shell::target().join("debug/llsd"));
            diff.args(["plugin", "diff"]).args([&old, &new]);
            diff.arg(option).arg(folder);
            for case in explained.get(&name).into_iter().flat_map(BTreeMap::keys) {
                diff.args(["--expect", case]);
            }
            match diff.status().context("failed to start llsd")?.code() {
                Some(0) => {}
                Some(1) => differing.push(name.clone()),
                _ => bail!("{name}: llsd plugin diff failed; see its messages above"),
            }
        }
    }
    ensure!(
        compared > 0,
        "{} has none of the plugins; pass the folder `plugins` of a release archive",
        released.display()
    );
    differing.dedup();
    ensure!(
        differing.is_empty(),
        "{} differ from the last release; if that is intended, explain each case in {EXPLAINED}",
        differing.join(", ")
    );
    Ok(())
}

/// Writes the first sample and every configuration in `bases` as cases of `llsd plugin diff`, such as
/// `0.7.3-starter-config.yaml` and `0.7.3-starter-config.base.yaml`.
fn write_shipped_cases(bases: &Path, folder: &Path) -> anyhow::Result<()> {
    let sample = shell::root().join("samples/minimal.yaml");
    let sample: Value = serde_saphyr::from_str(&fs::read_to_string(sample)?)?;
    let shipped = files(bases)?;
    ensure!(!shipped.is_empty(), "{} has no files", bases.display());
    for file in shipped {
        let path = file.strip_prefix(bases)?.with_extension("");
        let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
        let case = names.join("-");
        let base = fs::read_to_string(&file)?;
        let needed: BTreeSet<&str> = expressions(&base)
            .filter(|expression| expression.form == Form::Bare)
            .map(|expression| expression.name)
            .collect();
        let mut resource = sample.clone();
        // Without them the server would not start, and the resource is rejected.
        resource["spec"]["workload"]["overrides"]["env"] = needed
            .into_iter()
            .map(|name| json!({ "name": name, "value": "set" }))
            .collect();
        fs::write(folder.join(format!("{case}.yaml")), resource.to_string())?;
        fs::write(folder.join(format!("{case}.base.yaml")), base)?;
    }
    Ok(())
}

/// The files below a directory.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
    {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
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
    fn every_shipped_configuration_is_a_case_with_the_variables_that_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let (bases, cases) = (folder.path().join("bases"), folder.path().join("cases"));
        let starter = bases.join("0.7.3/starter");
        for directory in [&starter, &cases] {
            fs::create_dir_all(directory).unwrap();
        }
        let base = "a: ${env.TOKEN}\nb: ${env.HOST:=localhost}\n";
        fs::write(starter.join("config.yaml"), base).unwrap();
        write_shipped_cases(&bases, &cases).unwrap();
        let resource = fs::read(cases.join("0.7.3-starter-config.yaml")).unwrap();
        let resource: Value = serde_json::from_slice(&resource).unwrap();
        let env = &resource["spec"]["workload"]["overrides"]["env"];
        assert_eq!(*env, json!([{ "name": "TOKEN", "value": "set" }]));
        let written = fs::read_to_string(cases.join("0.7.3-starter-config.base.yaml"));
        assert_eq!(written.unwrap(), base);
        assert!(write_shipped_cases(&cases.join("none"), &cases).is_err());
    }

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

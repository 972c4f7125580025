//! Checks dependencies against `deny.toml`: licences, several versions of a crate, sources.
//!
//! In: `deny.toml` in the format of cargo-deny, and the output of `cargo metadata`. Out: every violation.
//! cargo-deny itself is not used, because it is expensive to compile: see
//! `docs/decisions/0017-our-own-check-of-dependencies.md`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use xtask::shell;

const FILE: &str = "deny.toml";

/// The part of cargo-deny's format that we use. An unknown key is an error, so that none is ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Level,
    #[serde(default)]
    skip: Vec<Skip>,
}

/// The only level that we use.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    /// `name@version`.
    #[serde(rename = "crate")]
    package: String,
    /// For the reader.
    #[serde(rename = "reason")]
    _reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
    allow_registry: Vec<String>,
}

/// Checks this workspace, and fails with every violation.
pub fn run() -> anyhow::Result<()> {
    let path = shell::root().join(FILE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    let config = parse(&text)?;
    let mut metadata = shell::cargo(&["metadata", "--format-version=1", "--locked"]);
    for target in &config.graph.targets {
        metadata.args(["--filter-platform", target]);
    }
    let output = metadata.output()?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let problems = check(&config, &serde_json::from_slice(&output.stdout)?)?;
    if !problems.is_empty() {
        bail!(
            "{} dependencies violate {FILE}:\n  {}",
            problems.len(),
            problems.join("\n  ")
        );
    }
    Ok(())
}

fn parse(text: &str) -> anyhow::Result<Config> {
    toml::from_str(text).with_context(|| format!("{FILE} is invalid"))
}

/// Every violation, as a line.
fn check(config: &Config, metadata: &Value) -> anyhow::Result<Vec<String>> {
    let Config {
        graph: _,
        licenses,
        bans,
        sources,
    } = config;
    let packages: Vec<&Value> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|package| !package["source"].is_null())
        .collect();
    let mut problems = check_licenses(licenses, &packages)?;
    problems.extend(check_versions(bans, &packages));
    problems.extend(check_sources(sources, &packages));
    Ok(problems)
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// `name@version`.
fn id(package: &Value) -> String {
    format!("{}@{}", text(package, "name"), text(package, "version"))
}

fn check_licenses(config: &Licenses, packages: &[&Value]) -> anyhow::Result<Vec<String>> {
    let parse = |names: &[String]| -> anyhow::Result<Vec<Licensee>> {
        let parse = |name: &String| {
            Licensee::parse(name).map_err(|error| anyhow::anyhow!("{FILE}: {name:?}: {error}"))
        };
        names.iter().map(parse).collect()
    };
    let allowed = parse(&config.allow)?;
    let mut exceptions = BTreeMap::new();
    for Exception { package, allow } in &config.exceptions {
        exceptions.insert(package.as_str(), parse(allow)?);
    }
    let mut used = BTreeSet::new();
    let mut problems = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let license = text(package, "license");
        // Some crates separate alternatives with a slash, which SPDX does not allow.
        let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else {
            problems.push(format!(
                "{}: {license:?} is not an SPDX expression; replace the crate",
                id(package)
            ));
            continue;
        };
        let is_in = |list: &[Licensee]| {
            expression.evaluate(|required| list.iter().any(|one| one.satisfies(required)))
        };
        if is_in(&allowed) {
            continue;
        }
        let exception = exceptions.get(name);
        let both = exception.map(|more| [allowed.as_slice(), more].concat());
        if both.is_some_and(|list| is_in(&list)) {
            used.insert(name);
        } else {
            problems.push(format!(
                "{}: the licence {license:?} is not in licenses.allow; replace the crate, or allow the licence",
                id(package)
            ));
        }
    }
    for name in exceptions.keys().filter(|name| !used.contains(*name)) {
        problems.push(format!(
            "licenses.exceptions: {name} needs no exception; remove it"
        ));
    }
    Ok(problems)
}

fn check_versions(
    Bans {
        multiple_versions: Level::Deny,
        skip,
    }: &Bans,
    packages: &[&Value],
) -> Vec<String> {
    let skipped: BTreeSet<&str> = skip.iter().map(|skip| skip.package.as_str()).collect();
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(text(package, "name"))
            .or_default()
            .insert(id(package));
    }
    let duplicates: Vec<&BTreeSet<String>> =
        versions.values().filter(|ids| ids.len() > 1).collect();
    let mut problems = Vec::new();
    for ids in &duplicates {
        let others: Vec<&str> = ids
            .iter()
            .map(String::as_str)
            .filter(|id| !skipped.contains(id))
            .collect();
        if others.len() > 1 {
            problems.push(format!(
                "several versions of one crate: {}; update what needs the older one (`cargo tree --invert`), or add it to bans.skip",
                others.join(", ")
            ));
        }
    }
    let needed: BTreeSet<&str> = duplicates
        .iter()
        .flat_map(|ids| ids.iter())
        .map(String::as_str)
        .collect();
    for id in skipped.difference(&needed) {
        problems.push(format!("bans.skip: {id} has no other version; remove it"));
    }
    problems
}

fn check_sources(config: &Sources, packages: &[&Value]) -> Vec<String> {
    let Sources {
        unknown_registry: Level::Deny,
        unknown_git: Level::Deny,
        allow_registry,
    } = config;
    let allowed: Vec<String> = allow_registry
        .iter()
        .map(|url| format!("registry+{url}"))
        .collect();
    let is_unknown = |package: &&&Value| !allowed.iter().any(|url| url == text(package, "source"));
    packages
        .iter()
        .filter(is_unknown)
        .map(|package| {
            let source = text(package, "source");
            format!(
                "{}: the source {source} is not in sources.allow-registry",
                id(package)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CONFIG: &str = r#"
        [graph]
        targets = []
        [licenses]
        allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
        exceptions = [{ crate = "data", allow = ["CDLA-Permissive-2.0"] }]
        [bans]
        multiple-versions = "deny"
        skip = [{ crate = "old@1.0.0", reason = "other" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://registry.test"]
    "#;

    fn package(name: &str, version: &str, license: &str) -> Value {
        json!({
            "name": name,
            "version": version,
            "license": license,
            "source": "registry+https://registry.test",
        })
    }

    fn problems(more: &[Value]) -> Vec<String> {
        let mut packages = vec![
            package("data", "1.0.0", "CDLA-Permissive-2.0"),
            package("old", "1.0.0", "MIT/GPL-3.0"),
            package("old", "2.0.0", "Apache-2.0 WITH LLVM-exception"),
            json!({"name": "ours", "version": "1.0.0", "license": null, "source": null}),
        ];
        packages.extend_from_slice(more);
        check(&parse(CONFIG).unwrap(), &json!({ "packages": packages })).unwrap()
    }

    #[test]
    fn alternatives_exceptions_and_skipped_versions_are_allowed() {
        assert_eq!(problems(&[]), [""; 0]);
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_reported() {
        assert_eq!(
            problems(&[package("strict", "1.2.3", "GPL-3.0-only AND MIT")]),
            [
                "strict@1.2.3: the licence \"GPL-3.0-only AND MIT\" is not in licenses.allow; replace the \
                 crate, or allow the licence"
            ]
        );
        assert_eq!(
            problems(&[package("odd", "1.0.0", "")]),
            ["odd@1.0.0: \"\" is not an SPDX expression; replace the crate"]
        );
    }

    #[test]
    fn a_second_version_is_reported_unless_it_is_skipped() {
        assert_eq!(
            problems(&[package("old", "3.0.0", "MIT")]),
            [
                "several versions of one crate: old@2.0.0, old@3.0.0; update what needs the older one (`cargo \
                 tree --invert`), or add it to bans.skip"
            ]
        );
    }

    #[test]
    fn another_source_is_reported() {
        let mut other = package("forked", "1.0.0", "MIT");
        other["source"] = "git+https://git.test/forked#123".into();
        assert_eq!(
            problems(&[other]),
            [
                "forked@1.0.0: the source git+https://git.test/forked#123 is not in sources.allow-registry"
            ]
        );
    }

    #[test]
    fn entries_that_match_nothing_are_reported() {
        let problems = check(&parse(CONFIG).unwrap(), &json!({ "packages": [] })).unwrap();
        assert_eq!(
            problems,
            [
                "licenses.exceptions: data needs no exception; remove it",
                "bans.skip: old@1.0.0 has no other version; remove it"
            ]
        );
    }

    #[test]
    fn unknown_keys_are_errors() {
        assert!(parse(&CONFIG.replace("allow-registry", "allow-registries")).is_err());
    }
}

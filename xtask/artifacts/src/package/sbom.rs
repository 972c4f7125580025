//! A CycloneDX bill of materials: the crates inside the binary, from cargo's own resolution.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use xtask::shell;

/// The crate whose binary is shipped.
const SHIPPED: &str = "llsd";

/// What `cargo metadata` says about the locked workspace.
pub fn metadata() -> anyhow::Result<Value> {
    let output = shell::cargo(&["metadata", "--format-version=1", "--locked"]).output()?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The version of what is shipped.
pub fn version(metadata: &Value) -> anyhow::Result<String> {
    let package = packages(metadata).find(|package| package["name"] == SHIPPED);
    let version = package.and_then(|package| package["version"].as_str());
    Ok(version.context("the workspace holds no llsd")?.to_owned())
}

/// The bill, the same bytes for the same lock file.
///
/// What only builds or tests something is left out; what only another platform needs is not.
pub fn cyclonedx(metadata: &Value) -> anyhow::Result<String> {
    let by_id: BTreeMap<&str, &Value> = packages(metadata)
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("nothing was resolved")?;
    let depends_on: BTreeMap<&str, Vec<&str>> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, shipped_dependencies(node))))
        .collect();
    let root = by_id
        .iter()
        .find(|(_, package)| package["name"] == SHIPPED)
        .map(|(id, _)| *id)
        .context("the workspace holds no llsd")?;

    let mut reached = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if reached.insert(id) {
            waiting.extend(depends_on.get(id).into_iter().flatten());
        }
    }
    let components: BTreeMap<String, Value> = reached
        .iter()
        .filter(|id| **id != root)
        .filter_map(|id| by_id.get(id))
        .map(|package| (purl(package), component(package, "library")))
        .collect();
    let dependencies: BTreeMap<String, Vec<String>> = reached
        .iter()
        .map(|id| {
            let direct = depends_on.get(id).into_iter().flatten();
            let mut direct: Vec<String> = direct.map(|id| purl(by_id[id])).collect();
            direct.sort();
            direct.dedup();
            (purl(by_id[id]), direct)
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component(by_id[root], "application") },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies
            .into_iter()
            .map(|(crate_, direct)| json!({ "ref": crate_, "dependsOn": direct }))
            .collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// Dependencies that end up in the binary.
fn shipped_dependencies(node: &Value) -> Vec<&str> {
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"].is_null())
    };
    let dependencies = node["deps"].as_array().into_iter().flatten();
    dependencies
        .filter(is_normal)
        .filter_map(|dependency| dependency["pkg"].as_str())
        .collect()
}

fn component(package: &Value, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // Some crates write the choice with a slash, which is no SPDX expression.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    component
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let package = |name: &str, licence: Option<&str>| json!({ "id": name, "name": name, "version": "1.0.0", "license": licence });
        let dependency =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [
                package("llsd", Some("Apache-2.0")),
                package("inside", Some("MIT/Apache-2.0")),
                package("deeper", None),
                package("tests-only", None),
                package("elsewhere", None),
            ],
            "resolve": { "nodes": [
                { "id": "llsd", "deps": [dependency("inside", Value::Null), dependency("tests-only", "dev".into())] },
                { "id": "inside", "deps": [dependency("deeper", Value::Null)] },
                { "id": "deeper", "deps": [] },
                { "id": "tests-only", "deps": [dependency("elsewhere", Value::Null)] },
                { "id": "elsewhere", "deps": [] },
            ] },
        })
    }

    #[test]
    fn the_bill_lists_what_is_inside_the_binary_and_nothing_else() {
        let bill: Value = serde_json::from_str(&cyclonedx(&sample()).unwrap()).unwrap();
        let components = bill["components"].as_array().unwrap();
        let names: Vec<&str> = components
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["deeper", "inside"]);
        assert_eq!(
            bill["metadata"]["component"]["purl"],
            "pkg:cargo/llsd@1.0.0"
        );
        assert_eq!(
            components[1]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(
            bill["dependencies"][1],
            json!({ "ref": "pkg:cargo/inside@1.0.0", "dependsOn": ["pkg:cargo/deeper@1.0.0"] })
        );
    }
}

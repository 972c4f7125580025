//! The software bill of materials (SBOM): the crates inside the binary, in CycloneDX format.
//!
//! In: the output of `cargo metadata`. Out: JSON without a timestamp and serial number, so that equal
//! lock files give equal bytes. `cargo-cyclonedx` cannot be used: its references contain the absolute
//! path of the checkout, and it writes a file beside every manifest of the workspace.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use cyclonedx_bom::models::component::Classification;
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::prelude::{
    Bom, Component, Components, Metadata, Purl, SpdxExpression, SpecVersion, Validate,
};
use serde_json::Value;

use xtask::shell;

/// The package of the binary `llsd`.
pub const LLSD: &str = "llsd";
/// The newest version of the specification that `cyclonedx-bom` can write.
const SPEC_VERSION: SpecVersion = SpecVersion::V1_5;

/// Runs `cargo metadata` on the locked workspace.
pub fn metadata() -> anyhow::Result<Value> {
    let output = shell::cargo(&["metadata", "--format-version=1", "--locked"]).output()?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The version of the shipped crate.
pub fn version(metadata: &Value) -> anyhow::Result<String> {
    let package = packages(metadata).find(|package| package["name"] == LLSD);
    let version = package.and_then(|package| package["version"].as_str());
    Ok(version
        .context("the workspace has no package llsd")?
        .to_owned())
}

/// A package and everything that is linked into it.
pub struct Linked<'a> {
    root: &'a str,
    by_id: BTreeMap<&'a str, &'a Value>,
    depends_on: BTreeMap<&'a str, Vec<&'a str>>,
    reached: BTreeSet<&'a str>,
}

impl<'a> Linked<'a> {
    /// The package `name` of the workspace. Build and dev dependencies are left out; dependencies of
    /// other platforms are included.
    pub fn of(metadata: &'a Value, name: &str) -> anyhow::Result<Self> {
        let by_id: BTreeMap<&str, &Value> = packages(metadata)
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let nodes = metadata["resolve"]["nodes"]
            .as_array()
            .context("cargo metadata returned no dependency graph")?;
        let depends_on: BTreeMap<&str, Vec<&str>> = nodes
            .iter()
            .filter_map(|node| Some((node["id"].as_str()?, normal_dependencies(node))))
            .collect();
        let root = by_id
            .iter()
            .find(|(_, package)| package["name"] == name && package["source"].is_null())
            .map(|(id, _)| *id)
            .with_context(|| format!("the workspace has no package {name}"))?;
        let mut reached = BTreeSet::new();
        let mut queue = vec![root];
        while let Some(id) = queue.pop() {
            if reached.insert(id) {
                queue.extend(depends_on.get(id).into_iter().flatten());
            }
        }
        Ok(Self {
            root,
            by_id,
            depends_on,
            reached,
        })
    }

    /// The packages of other projects, as `cargo metadata` describes them.
    pub fn third_party(&self) -> impl Iterator<Item = &'a Value> {
        let packages = self.reached.iter().map(|id| self.by_id[id]);
        packages.filter(|package| !package["source"].is_null())
    }
}

/// The SBOM of the package `name` as JSON.
pub fn cyclonedx(metadata: &Value, name: &str) -> anyhow::Result<String> {
    let Linked {
        root,
        by_id,
        depends_on,
        reached,
    } = Linked::of(metadata, name)?;
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in reached {
        let reference = purl(by_id[id])?.to_string();
        let direct = depends_on.get(id).into_iter().flatten();
        let direct: BTreeSet<String> = direct
            .map(|id| Ok(purl(by_id[id])?.to_string()))
            .collect::<anyhow::Result<_>>()?;
        dependencies.insert(reference.clone(), direct);
        if id != root {
            let library = component(by_id[id], Classification::Library)?;
            components.insert(reference, library);
        }
    }
    let dependency = |(dependency_ref, direct): (String, BTreeSet<String>)| Dependency {
        dependency_ref,
        dependencies: direct.into_iter().collect(),
    };
    let application = component(by_id[root], Classification::Application)?;
    to_json(Bom {
        serial_number: None,
        metadata: Some(Metadata {
            component: Some(application),
            ..Metadata::default()
        }),
        components: Some(Components(components.into_values().collect())),
        dependencies: Some(Dependencies(
            dependencies.into_iter().map(dependency).collect(),
        )),
        ..Bom::default()
    })
}

fn to_json(bom: Bom) -> anyhow::Result<String> {
    let validation = bom.validate_version(SPEC_VERSION);
    ensure!(
        validation.passed(),
        "the SBOM is not valid CycloneDX: {validation:?}"
    );
    let mut json = Vec::new();
    bom.output_as_json(&mut json, SPEC_VERSION)?;
    Ok(String::from_utf8(json)? + "\n")
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The dependencies of a package that end up in the binary.
fn normal_dependencies(node: &Value) -> Vec<&str> {
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

fn component(package: &Value, classification: Classification) -> anyhow::Result<Component> {
    let purl = purl(package)?;
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let mut component = Component::new(
        classification,
        text("name"),
        text("version"),
        Some(purl.to_string()),
    );
    if let Some(license) = package["license"].as_str() {
        // Some crates separate alternatives with a slash, which SPDX does not allow.
        let expression = SpdxExpression::parse_lax(license.to_owned())
            .with_context(|| format!("{purl}: {license:?} is not an SPDX expression"))?;
        component.licenses = Some(Licenses(vec![LicenseChoice::Expression(expression)]));
    }
    component.purl = Some(purl);
    Ok(component)
}

fn purl(package: &Value) -> anyhow::Result<Purl> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    Ok(Purl::new("cargo", text("name"), text("version"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn the_sbom_lists_the_crates_of_the_binary_only() {
        let sbom: Value = serde_json::from_str(&cyclonedx(&sample(), LLSD).unwrap()).unwrap();
        let components = sbom["components"].as_array().unwrap();
        let names: Vec<&str> = components
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["deeper", "inside"]);
        assert_eq!(
            sbom["metadata"]["component"]["purl"],
            "pkg:cargo/llsd@1.0.0"
        );
        assert_eq!(
            components[1]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(
            sbom["dependencies"][1],
            json!({ "ref": "pkg:cargo/inside@1.0.0", "dependsOn": ["pkg:cargo/deeper@1.0.0"] })
        );
    }

    #[test]
    fn the_sbom_is_reproducible() {
        let json = cyclonedx(&sample(), LLSD).unwrap();
        assert_eq!(json, cyclonedx(&sample(), LLSD).unwrap());
        let sbom: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(sbom.get("serialNumber"), None);
        assert_eq!(sbom["metadata"].get("timestamp"), None);
    }

    #[test]
    fn the_sbom_of_this_workspace_is_valid_and_independent_of_its_directory() {
        let json = cyclonedx(&metadata().unwrap(), LLSD).unwrap();
        assert!(json.contains("pkg:cargo/wasmtime@"));
        assert!(!json.contains("pkg:cargo/tempfile@"), "a dev dependency");
        let root = shell::root().canonicalize().unwrap();
        assert!(!json.contains(root.to_str().unwrap()));
    }
}

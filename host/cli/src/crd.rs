//! `llsd crd`: prints the manifests of the custom resource definitions and the admission policy.

use llsd_adapter_sdk::documents::json_schemas;
use llsd_api::{Manifest, crd_manifests, policy_manifests};
use serde_json::{Map, Value};

use crate::{Exit, output, reference};

/// Arguments of `crd`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also print the admission policy and its binding
    #[arg(long)]
    policy: bool,
    /// Print every generated file of the repository as a JSON object from path to content
    #[arg(long, hide = true)]
    repository: bool,
}

/// Prints YAML documents.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.repository {
        output::print(&Value::Object(repository()?).to_string());
        return Ok(Exit::Success);
    }
    let mut manifests = crd_manifests(None);
    if arguments.policy {
        manifests.extend(policy_manifests());
    }
    let texts: Vec<String> = manifests
        .into_iter()
        .map(|manifest| manifest.yaml)
        .collect();
    output::print(&texts.join("---\n"));
    Ok(Exit::Success)
}

fn repository() -> anyhow::Result<Map<String, Value>> {
    let mut files = Map::new();
    for (folder, manifests) in [("crd", crd_manifests(None)), ("policy", policy_manifests())] {
        for Manifest { file, yaml } in manifests {
            files.insert(format!("deploy/kustomize/{folder}/{file}"), yaml.into());
        }
    }
    for (shape, schema) in json_schemas() {
        let name = format!("wit/v1.0.0/schemas/{}.json", shape.replace('/', "."));
        files.insert(name, (serde_json::to_string_pretty(&schema)? + "\n").into());
    }
    files.insert("docs/reference.md".to_owned(), reference::page()?.into());
    Ok(files)
}

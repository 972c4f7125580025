//! Renders the manifests with `kubectl kustomize` and `helm template`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use llsd_testbed::Invocation;
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use serde_json::Value;

use crate::checkout;

/// Kubernetes objects by `kind namespace/name`.
pub type Objects = BTreeMap<String, Value>;

/// Renders a folder below `deploy/kustomize`, or any folder if the path is absolute.
pub async fn kustomization(folder: &str) -> Result<Objects> {
    let folder = checkout().join("deploy/kustomize").join(folder);
    let rendered = Invocation::new(&tool(Tool::Kubectl)?)
        .arg("kustomize")
        .arg(folder);
    parse(&rendered.run().await?.success()?)
}

/// Renders the chart in the namespace that our manifests use.
pub async fn chart(values: &[&str]) -> Result<Objects> {
    chart_in("llsd-system", values).await
}

/// Renders the chart in a namespace.
pub async fn chart_in(namespace: &str, values: &[&str]) -> Result<Objects> {
    let mut template = template(namespace)?.arg("--skip-tests");
    for value in values {
        template = template.args(["--set", value]);
    }
    parse(&template.run().await?.success()?)
}

/// Renders the objects that `helm test` creates.
pub async fn chart_test(namespace: &str) -> Result<Objects> {
    let template = template(namespace)?.args(["--show-only", "templates/tests/doctor.yaml"]);
    parse(&template.run().await?.success()?)
}

fn template(namespace: &str) -> Result<Invocation> {
    Ok(Invocation::new(&tool(Tool::Helm)?)
        .args(["template", "llsd"])
        .arg(checkout().join("deploy/helm/llsd"))
        .namespace(namespace))
}

/// Parses a stream of YAML documents.
pub fn parse(yaml: &str) -> Result<Objects> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut objects = Objects::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let metadata = &document["metadata"];
        let key = format!(
            "{} {}/{}",
            document["kind"].as_str().context("an object has no kind")?,
            metadata["namespace"].as_str().unwrap_or_default(),
            metadata["name"].as_str().context("an object has no name")?,
        );
        let is_duplicate = objects.insert(key.clone(), document).is_some();
        ensure!(!is_duplicate, "duplicate object: {key}");
    }
    Ok(objects)
}

fn tool(tool: Tool) -> Result<PathBuf> {
    Ok(ensure_built(&cache_dir()?, &[tool])?.remove(0))
}

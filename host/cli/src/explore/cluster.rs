//! `--cluster`: the resources of a namespace, to open them in the page. Nothing is written.

use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use llsd_api::{Distribution, GROUP, KIND};
use serde_json::Value;

/// Resources that are listed. A namespace has a few.
const LISTED: u32 = 500;

/// How long a request to the API server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Metadata that the API server adds, and that a file does not have.
const ADDED: [&str; 6] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "selfLink",
];

/// The names of the resources in the namespace of the client.
pub(super) async fn names(client: &Client) -> anyhow::Result<Vec<String>> {
    let resources = Api::<Distribution>::default_namespaced(client.clone());
    let parameters = ListParams::default().limit(LISTED);
    let listed = tokio::time::timeout(TIMEOUT, resources.list_metadata(&parameters)).await;
    let listed = listed
        .context("the API server did not answer in time")?
        .context("failed to list the LlamaStackDistributions")?;
    let names = listed.items.into_iter();
    Ok(names.filter_map(|item| item.metadata.name).collect())
}

/// A resource as YAML, as a user would write it.
pub(super) async fn text(client: &Client, name: &str) -> anyhow::Result<String> {
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha2", KIND);
    let kind = ApiResource::from_gvk_with_plural(&kind, "llamastackdistributions");
    let resources = Api::<DynamicObject>::default_namespaced_with(client.clone(), &kind);
    let found = tokio::time::timeout(TIMEOUT, resources.get(name)).await;
    let found = found
        .context("the API server did not answer in time")?
        .with_context(|| format!("failed to get LlamaStackDistribution {name:?}"))?;
    let resource = as_written(serde_json::to_value(found)?);
    Ok(llsd_render::yaml::write(&resource))
}

/// The resource without its status and what the API server adds.
fn as_written(mut resource: Value) -> Value {
    if let Some(fields) = resource.as_object_mut() {
        fields.shift_remove("status");
    }
    let Some(metadata) = resource["metadata"].as_object_mut() else {
        return resource;
    };
    metadata.retain(|key, _| !ADDED.contains(&key.as_str()));
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.shift_remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    resource
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_of_the_cluster_is_shown_as_its_author_wrote_it() {
        let stored = json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": {
                "name": "a", "namespace": "b", "uid": "1", "resourceVersion": "2", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}],
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
            },
            "spec": { "distribution": { "name": "starter" } },
            "status": { "phase": "Ready" },
        });
        let expected = json!({
            "apiVersion": "llamastack.io/v1alpha2",
            "kind": "LlamaStackDistribution",
            "metadata": { "name": "a", "namespace": "b" },
            "spec": { "distribution": { "name": "starter" } },
        });
        assert_eq!(as_written(stored), expected);
    }
}

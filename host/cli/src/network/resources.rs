//! The resources of a cluster, with what their servers use, for `llsd upgrade plan`. Reads only.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use llsd_api::checked::{ConfigSource, DEFAULT_CONFIG_KEY};
use llsd_api::{API_VERSION_V1ALPHA2, Distribution, KIND, check_document};
use llsd_render::yaml;
use serde_json::{Value, json};

use crate::network::cluster::ClusterOptions;
use crate::output;
use crate::upgrade::Subject;

/// Options that select resources of a cluster.
#[derive(clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ResourceOptions {
    /// Resources of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "paths"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl ResourceOptions {
    /// Reads the resources, their ConfigMaps and the files that their servers use.
    pub(crate) fn subjects(&self) -> anyhow::Result<Vec<Subject>> {
        self.cluster.run(async |client| {
            let api: Api<Distribution> = if self.all_namespaces {
                Api::all(client.clone())
            } else {
                Api::default_namespaced(client.clone())
            };
            let resources = api
                .list(&ListParams::default())
                .await
                .context("failed to list the LlamaStackDistributions; check with `llsd doctor` that llsd is installed")?;
            anyhow::ensure!(
                !resources.items.is_empty(),
                "there are no LlamaStackDistributions; see `kubectl get llsd --all-namespaces`"
            );
            let mut subjects = Vec::new();
            for resource in resources {
                subjects.push(subject(&client, &resource).await?);
            }
            Ok(subjects)
        })
    }
}

async fn subject(client: &Client, resource: &Distribution) -> anyhow::Result<Subject> {
    let namespace = resource.namespace().unwrap_or_default();
    let object = json!({
        "apiVersion": API_VERSION_V1ALPHA2,
        "kind": KIND,
        "metadata": {"name": resource.name_any(), "namespace": namespace, "annotations": resource.annotations()},
        "spec": resource.spec,
    });
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let mut objects = Vec::new();
    for name in named_maps(&object) {
        objects.extend(config_map(&maps, &name).await?);
    }
    let generation = resource
        .status
        .as_ref()
        .and_then(|status| status.config_generation.as_ref());
    let mut running = None;
    if let Some(generation) = generation
        && let (Some(schema), Some(name)) = (&generation.schema, &generation.config_map_name)
    {
        let map = config_map(&maps, name).await?;
        let text = map
            .as_ref()
            .and_then(|map| map["data"][DEFAULT_CONFIG_KEY].as_str());
        running = text
            .and_then(|text| yaml::read(text).ok())
            .map(|config| (schema.clone(), config));
    }
    Ok(Subject {
        place: namespace,
        file: None,
        object,
        objects,
        running,
    })
}

/// The ConfigMaps that a resource names.
fn named_maps(object: &Value) -> BTreeSet<String> {
    let Ok(checked) = check_document(object.clone()).result else {
        return BTreeSet::new();
    };
    match checked.config_source {
        ConfigSource::Override { config_map, .. } => BTreeSet::from([config_map]),
        ConfigSource::Generated { base: Some(base) } => BTreeSet::from([base.name]),
        ConfigSource::Generated { base: None } | ConfigSource::DistributionDefault => {
            BTreeSet::new()
        }
    }
}

/// A ConfigMap as an object; `None` if it does not exist or must not be read.
async fn config_map(api: &Api<ConfigMap>, name: &str) -> anyhow::Result<Option<Value>> {
    let found = match api.get_opt(name).await {
        Ok(found) => found,
        Err(error) => {
            output::print_warning(&format!("failed to get ConfigMap {name:?}: {error}"));
            None
        }
    };
    Ok(found.map(|map| json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": map.data})))
}

//! Loads the operator's ConfigMap, and the ConfigMaps with base configurations that it names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;

use super::NAME;
use super::parse::{ConfigMapData, ParsedSettings, parse};

/// Loads the settings. Also returns the names of the ConfigMaps that they depend on, whether or not
/// these exist.
pub(super) async fn load(
    client: &Client,
    operator_namespace: &str,
) -> Result<(ParsedSettings, BTreeSet<String>), kube::Error> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), operator_namespace);
    let stated = parse(&data(&api, NAME).await?.unwrap_or_default());
    let bases = stated.base_config_maps();
    let mut found = BTreeMap::new();
    for name in &bases {
        if let Some(data) = data(&api, name).await? {
            found.insert(name.clone(), data);
        }
    }
    let names = bases.into_iter().chain([NAME.to_owned()]).collect();
    Ok((stated.with_bases(&found), names))
}

/// The data of a ConfigMap; `None` if it does not exist.
async fn data(api: &Api<ConfigMap>, name: &str) -> Result<Option<ConfigMapData>, kube::Error> {
    let found = api.get_opt(name).await?;
    Ok(found.map(|map| map.data.unwrap_or_default()))
}

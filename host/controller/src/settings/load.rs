//! Reads the operator's ConfigMap from the cluster, and those with bases that it names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;

use super::NAME;
use super::read::{self, Reading, Texts};

/// Reads everything anew. Also gives the names of the ConfigMaps that the reading depends on, which
/// are in the operator's namespace `home`, whether or not they are there.
pub(super) async fn read(
    client: &Client,
    home: &str,
) -> Result<(Reading, BTreeSet<String>), kube::Error> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), home);
    let stated = read::read(&texts(&api, NAME).await?.unwrap_or_default());
    let bases = stated.bases();
    let mut found = BTreeMap::new();
    for name in &bases {
        if let Some(texts) = texts(&api, name).await? {
            found.insert(name.clone(), texts);
        }
    }
    let names = bases.into_iter().chain([NAME.to_owned()]).collect();
    Ok((stated.complete(&found), names))
}

/// What a ConfigMap holds, if it is there.
async fn texts(api: &Api<ConfigMap>, name: &str) -> Result<Option<Texts>, kube::Error> {
    let found = api.get_opt(name).await?;
    Ok(found.map(|map| map.data.unwrap_or_default()))
}

//! `--settings`: the distributions that an installation of the operator knows by name.
//!
//! In: a file with the operator's ConfigMap, and with the ConfigMaps of base configurations that it
//! names. Out: every distribution by name, or its problem. Without a file, the built-in ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use llsd_render::distributions::settings::{
    CONFIG_MAP_NAME, ConfigMapData, Parsed, StatedDistributions,
};
use llsd_render::distributions::{self, KnownDistribution};
use serde_json::Value;

use crate::files;

/// The option that names the file.
#[derive(clap::Args)]
pub(crate) struct SettingsOptions {
    /// File with the operator's ConfigMap, and the ConfigMaps of base configurations that it names:
    /// kubectl get configmap -n NAMESPACE -o yaml
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

/// Distributions by name, or the problem of an entry.
pub(crate) type Distributions = BTreeMap<String, Parsed<KnownDistribution>>;

impl SettingsOptions {
    /// The distributions that resources can use by name.
    pub(crate) fn distributions(&self) -> anyhow::Result<Distributions> {
        match &self.settings {
            Some(path) => read(path),
            None => Ok(distributions::builtin()
                .into_iter()
                .map(|(name, known)| (name, Ok(known)))
                .collect()),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Distributions> {
    let mut maps = BTreeMap::new();
    for object in files::objects(path)? {
        // `kubectl get -o yaml` prints several objects as a list.
        match object["items"].as_array() {
            Some(items) => maps.extend(items.iter().filter_map(config_map)),
            None => maps.extend(config_map(&object)),
        }
    }
    let own = maps.get(CONFIG_MAP_NAME);
    let only = (maps.len() == 1).then(|| maps.values().next()).flatten();
    let Some(data) = own.or(only) else {
        anyhow::bail!(
            "{} does not contain the operator's ConfigMap {CONFIG_MAP_NAME:?}; save it with kubectl get configmap {CONFIG_MAP_NAME} -n NAMESPACE -o yaml",
            path.display()
        );
    };
    let stated = StatedDistributions::parse(data)
        .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
    Ok(stated.with_bases(&maps, &check_image))
}

/// Name and data of a ConfigMap.
fn config_map(object: &Value) -> Option<(String, ConfigMapData)> {
    if object["kind"] != "ConfigMap" {
        return None;
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let data = object["data"].as_object().into_iter().flatten();
    let data = data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some((name.to_owned(), data.collect()))
}

#[cfg(feature = "network")]
fn check_image(image: &str) -> Result<(), String> {
    match image.parse::<llsd_registry::Reference>() {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Without network commands, no image is pulled, so that its reference does not matter.
#[cfg(not(feature = "network"))]
fn check_image(_: &str) -> Result<(), String> {
    Ok(())
}

//! Parses the distributions in the operator's ConfigMap.
//!
//! In: the data of the ConfigMap, and of the ConfigMaps with base configurations that it names. Out:
//! each distribution, or its problem and how to fix it. An invalid entry does not affect the others.
//! The operator and `--settings` of the command line use the same code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use llsd_api::checked::DEFAULT_CONFIG_KEY;
use llsd_api::v1alpha2::BaseConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{KnownDistribution, builtin};
use crate::yaml;

/// Name of the operator's ConfigMap.
pub const CONFIG_MAP_NAME: &str = "llama-stack-operator-config";

const IMAGE_OVERRIDES: &str = "image-overrides";
const DISTRIBUTIONS: &str = "distributions";

/// The data of a ConfigMap.
pub type ConfigMapData = BTreeMap<String, String>;
/// A part of the settings, or its problem.
pub type Parsed<T> = Result<T, String>;

/// The distributions of the ConfigMap, before the base configurations are loaded.
#[derive(Default)]
pub struct StatedDistributions {
    images: BTreeMap<String, String>,
    entries: BTreeMap<String, Parsed<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    image: Option<String>,
    schema: Option<String>,
    base_config: Option<BaseConfig>,
    user: Option<u32>,
}

impl StatedDistributions {
    /// Parses the keys `image-overrides` and `distributions`. A missing key has no entries.
    pub fn parse(data: &ConfigMapData) -> Parsed<Self> {
        let images = part(data, IMAGE_OVERRIDES)?;
        let entries: BTreeMap<String, Value> = part(data, DISTRIBUTIONS)?;
        let parse = |(name, value): (String, Value)| {
            let entry = serde_json::from_value(value)
                .map_err(|error| problem(&format!("{DISTRIBUTIONS}.{name}"), &error));
            (name, entry)
        };
        Ok(Self {
            images,
            entries: entries.into_iter().map(parse).collect(),
        })
    }

    /// Names of the ConfigMaps with base configurations, in the operator's namespace.
    pub fn base_config_maps(&self) -> BTreeSet<String> {
        self.entries
            .values()
            .filter_map(|entry| entry.as_ref().ok()?.base_config.as_ref())
            .map(|base| base.config_map_name.clone())
            .collect()
    }

    /// Every distribution by name, with the built-in ones. `found` are the ConfigMaps that exist.
    /// `check_image` checks the reference of an image.
    pub fn with_bases(
        &self,
        found: &BTreeMap<String, ConfigMapData>,
        check_image: &dyn Fn(&str) -> Result<(), String>,
    ) -> BTreeMap<String, Parsed<KnownDistribution>> {
        let builtin = builtin();
        let names: BTreeSet<&String> = builtin
            .keys()
            .chain(self.images.keys())
            .chain(self.entries.keys())
            .collect();
        names
            .into_iter()
            .map(|name| {
                let known = self.known(name, builtin.get(name), found, check_image);
                (name.clone(), known)
            })
            .collect()
    }

    /// The distribution of a name. The built-in schema and base configuration fit only their own
    /// release; for another image they come from the entry or from the labels of the image.
    fn known(
        &self,
        name: &str,
        builtin: Option<&KnownDistribution>,
        found: &BTreeMap<String, ConfigMapData>,
        check_image: &dyn Fn(&str) -> Result<(), String>,
    ) -> Parsed<KnownDistribution> {
        let entry = match self.entries.get(name) {
            Some(entry) => Some(entry.as_ref().map_err(Clone::clone)?),
            None => None,
        };
        let (key, image) = match self.images.get(name) {
            Some(image) => (IMAGE_OVERRIDES, Some(image)),
            None => (DISTRIBUTIONS, entry.and_then(|entry| entry.image.as_ref())),
        };
        let location = format!("{key}.{name}");
        let image = image.or(builtin.map(|known| &known.image));
        let image = image.ok_or_else(|| problem(&location, &"image is required; add it"))?;
        check_image(image).map_err(|error| problem(&location, &error))?;
        let builtin = builtin.filter(|known| tag(&known.image) == tag(image));
        let base = match entry.and_then(|entry| entry.base_config.as_ref()) {
            Some(base) => Some(base_config(name, base, found)?),
            None => builtin.and_then(|known| known.base.clone()),
        };
        let schema = entry.and_then(|entry| entry.schema.clone());
        let user = entry.and_then(|entry| entry.user);
        Ok(KnownDistribution {
            image: image.clone(),
            schema: schema.or_else(|| builtin.and_then(|known| known.schema.clone())),
            base,
            user: user.or_else(|| builtin.and_then(|known| known.user)),
        })
    }
}

/// The tag of an image reference: what follows the last `:` of its last segment, without the digest.
fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let segment = name.rsplit_once('/').map_or(name, |(_, segment)| segment);
    segment.rsplit_once(':').map(|(_, tag)| tag)
}

fn base_config(
    name: &str,
    base: &BaseConfig,
    found: &BTreeMap<String, ConfigMapData>,
) -> Parsed<String> {
    let BaseConfig {
        config_map_name,
        key,
    } = base;
    let location = format!("{DISTRIBUTIONS}.{name}.baseConfig");
    let key = key.as_deref().unwrap_or(DEFAULT_CONFIG_KEY);
    let data = found.get(config_map_name).ok_or_else(|| {
        let missing = format!(
            "ConfigMap {config_map_name:?} not found in the operator's namespace; create it with the key {key:?}"
        );
        problem(&location, &missing)
    })?;
    let text = data.get(key).ok_or_else(|| {
        let missing = format!("ConfigMap {config_map_name:?} has no key {key:?}; add it");
        problem(&location, &missing)
    })?;
    match yaml::read(text) {
        Ok(_) => Ok(text.clone()),
        Err(error) => Err(problem(
            &location,
            &format!("the base is not a server configuration: {error}"),
        )),
    }
}

/// Parses one key of the operator's ConfigMap.
pub fn part<T: DeserializeOwned + Default>(data: &ConfigMapData, key: &str) -> Parsed<T> {
    match data.get(key).filter(|text| !text.trim().is_empty()) {
        Some(text) => serde_saphyr::from_str(text).map_err(|error| problem(key, &error)),
        None => Ok(T::default()),
    }
}

/// The message of a problem in the operator's ConfigMap.
pub fn problem(location: &str, problem: &dyn fmt::Display) -> String {
    format!("operator ConfigMap {CONFIG_MAP_NAME:?}, {location}: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_is_read_without_registry_port_and_digest() {
        for (image, expected) in [
            (
                "docker.io/llamastack/distribution-starter:0.7.1",
                Some("0.7.1"),
            ),
            ("mirror.local:5000/starter:0.7.1@sha256:aa", Some("0.7.1")),
            ("mirror.local:5000/starter", None),
            ("starter@sha256:aa", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}

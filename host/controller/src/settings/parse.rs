//! Parses the operator's ConfigMap, part by part.
//!
//! In: the data of the ConfigMap, and of the ConfigMaps with base configurations that it names. Out:
//! each part, or its problem and how to fix it. An invalid entry affects neither other entries nor
//! other parts.

use std::collections::{BTreeMap, BTreeSet};

use llsd_api::checked::DEFAULT_CONFIG_KEY;
use llsd_api::v1alpha2::BaseConfig;
use llsd_registry::{Mirror, Mirrors, Reference};
use llsd_render::distributions::{self, KnownDistribution};
use llsd_render::yaml;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::NAME;

const FEATURE_FLAGS: &str = "featureFlags";
const IMAGE_OVERRIDES: &str = "image-overrides";
const DISTRIBUTIONS: &str = "distributions";
const MIRRORS: &str = "mirrors";

/// The data of a ConfigMap.
pub(super) type ConfigMapData = BTreeMap<String, String>;
/// A part, or its problem.
pub(super) type Parsed<T> = Result<T, String>;

/// One version of the ConfigMap.
pub(super) struct ParsedSettings {
    pub(super) network_policy: Parsed<bool>,
    pub(super) distributions: Parsed<BTreeMap<String, Parsed<KnownDistribution>>>,
    pub(super) mirrors: Parsed<Vec<Mirror>>,
}

/// One version of the ConfigMap, before the base configurations are loaded.
pub(super) struct StatedSettings {
    network_policy: Parsed<bool>,
    distributions: Parsed<StatedDistributions>,
    mirrors: Parsed<Vec<Mirror>>,
}

#[derive(Default)]
struct StatedDistributions {
    images: BTreeMap<String, String>,
    entries: BTreeMap<String, Parsed<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    image: Option<String>,
    schema: Option<String>,
    base_config: Option<BaseConfig>,
}

/// The flags of llama-stack-k8s-operator. Unknown flags are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FeatureFlags {
    enable_network_policy: FeatureFlag,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FeatureFlag {
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedMirror {
    from: String,
    to: String,
}

/// Parses the data of the ConfigMap. A missing key has the default of its part.
pub(super) fn parse(data: &ConfigMapData) -> StatedSettings {
    let flags: Parsed<FeatureFlags> = part(data, FEATURE_FLAGS);
    let images = part(data, IMAGE_OVERRIDES);
    let entries: Parsed<BTreeMap<String, Value>> = part(data, DISTRIBUTIONS);
    let entries = entries.map(|all| {
        let parse = |(name, value): (String, Value)| {
            let entry = serde_json::from_value(value)
                .map_err(|error| problem(&format!("{DISTRIBUTIONS}.{name}"), &error));
            (name, entry)
        };
        all.into_iter().map(parse).collect()
    });
    StatedSettings {
        network_policy: flags.map(|flags| flags.enable_network_policy.enabled),
        distributions: images
            .and_then(|images| entries.map(|entries| StatedDistributions { images, entries })),
        mirrors: mirrors(data),
    }
}

impl StatedSettings {
    /// Names of the ConfigMaps with base configurations, in the operator's namespace.
    pub(super) fn base_config_maps(&self) -> BTreeSet<String> {
        let entries = self
            .distributions
            .iter()
            .flat_map(|all| all.entries.values());
        entries
            .filter_map(|entry| entry.as_ref().ok()?.base_config.as_ref())
            .map(|base| base.config_map_name.clone())
            .collect()
    }

    /// Adds the base configurations. `found` are the ConfigMaps that exist.
    pub(super) fn with_bases(self, found: &BTreeMap<String, ConfigMapData>) -> ParsedSettings {
        let distributions = self.distributions.map(|stated| {
            let builtin = distributions::builtin();
            let names: BTreeSet<&String> = builtin
                .keys()
                .chain(stated.images.keys())
                .chain(stated.entries.keys())
                .collect();
            names
                .into_iter()
                .map(|name| (name.clone(), stated.known(name, builtin.get(name), found)))
                .collect()
        });
        ParsedSettings {
            network_policy: self.network_policy,
            distributions,
            mirrors: self.mirrors,
        }
    }
}

impl StatedDistributions {
    /// The distribution of a name. The built-in schema and base configuration fit only their own
    /// release; for another image they come from the entry or from the labels of the image.
    fn known(
        &self,
        name: &str,
        builtin: Option<&KnownDistribution>,
        found: &BTreeMap<String, ConfigMapData>,
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
        let reference: Reference = image.parse().map_err(|error| problem(&location, &error))?;
        let builtin = builtin.filter(|known| {
            let own = known.image.parse::<Reference>();
            own.is_ok_and(|own| own.tag() == reference.tag())
        });
        let base = match entry.and_then(|entry| entry.base_config.as_ref()) {
            Some(base) => Some(base_config(name, base, found)?),
            None => builtin.and_then(|known| known.base.clone()),
        };
        let schema = entry.and_then(|entry| entry.schema.clone());
        Ok(KnownDistribution {
            image: image.clone(),
            schema: schema.or_else(|| builtin.and_then(|known| known.schema.clone())),
            base,
        })
    }
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
            &format!("the base is not a valid server configuration: {error}"),
        )),
    }
}

fn mirrors(data: &ConfigMapData) -> Parsed<Vec<Mirror>> {
    let stated: Vec<StatedMirror> = part(data, MIRRORS)?;
    let check = |(index, StatedMirror { from, to }): (usize, StatedMirror)| {
        let mirror = Mirror { from, to };
        let sample = format!("{}/image", mirror.from.trim_matches('/'));
        sample
            .parse::<Reference>()
            .and_then(|sample| Mirrors::new([mirror.clone()]).rewrite(&sample))
            .map(|_| mirror)
            .map_err(|error| problem(&format!("{MIRRORS}[{index}]"), &error))
    };
    stated.into_iter().enumerate().map(check).collect()
}

/// Parses one key of the ConfigMap.
fn part<T: DeserializeOwned + Default>(data: &ConfigMapData, key: &str) -> Parsed<T> {
    match data.get(key).filter(|text| !text.trim().is_empty()) {
        Some(text) => serde_saphyr::from_str(text).map_err(|error| problem(key, &error)),
        None => Ok(T::default()),
    }
}

fn problem(location: &str, problem: &dyn std::fmt::Display) -> String {
    format!("operator ConfigMap {NAME:?}, {location}: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pairs: &[(&str, &str)], bases: &[(&str, &str)]) -> ParsedSettings {
        let data = |pairs: &[(&str, &str)]| -> ConfigMapData {
            let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
            pairs.iter().map(own).collect()
        };
        let found = bases
            .iter()
            .map(|(name, text)| ((*name).to_owned(), data(&[(DEFAULT_CONFIG_KEY, text)])));
        parse(&data(pairs)).with_bases(&found.collect())
    }

    fn known(parsed: &ParsedSettings, name: &str) -> Parsed<KnownDistribution> {
        parsed.distributions.as_ref().unwrap()[name].clone()
    }

    #[test]
    fn an_empty_config_map_leaves_the_built_in_distributions() {
        let settings = parsed(&[], &[]);
        assert_eq!(settings.network_policy, Ok(false));
        assert_eq!(settings.mirrors, Ok(Vec::new()));
        for (name, builtin) in distributions::builtin() {
            assert_eq!(known(&settings, &name), Ok(builtin));
        }
    }

    #[test]
    fn the_flag_has_the_format_of_llama_stack_k8s_operator() {
        for (text, expected) in [
            ("enableNetworkPolicy:\n  enabled: true\n", true),
            ("enableNetworkPolicy: {enabled: false}", false),
            ("anotherFlag: {enabled: true}", false),
        ] {
            let settings = parsed(&[(FEATURE_FLAGS, text)], &[]);
            assert_eq!(settings.network_policy, Ok(expected), "{text}");
        }
        let invalid = parsed(
            &[(FEATURE_FLAGS, "enableNetworkPolicy: {enabled: maybe}")],
            &[],
        );
        assert!(invalid.network_policy.unwrap_err().contains("featureFlags"));
        assert!(invalid.distributions.is_ok());
    }

    #[test]
    fn a_copy_of_the_built_in_release_keeps_its_base_and_another_release_does_not() {
        let text = "starter: mirror.local/starter:0.7.1\nremote-vllm: mirror.local/vllm:0.4.0";
        let settings = parsed(&[(IMAGE_OVERRIDES, text)], &[]);
        let copy = known(&settings, "starter").unwrap();
        assert_eq!(copy.image, "mirror.local/starter:0.7.1");
        assert!(copy.base.is_some() && copy.schema.is_some());
        let other = known(&settings, "remote-vllm").unwrap();
        assert_eq!((other.base, other.schema), (None, None));
    }

    #[test]
    fn a_new_name_has_the_schema_and_base_of_its_entry() {
        let text = "acme: {image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: base}}";
        let settings = parsed(&[(DISTRIBUTIONS, text)], &[("base", "version: 2")]);
        let acme = known(&settings, "acme").unwrap();
        assert_eq!(acme.schema.as_deref(), Some("llama-stack/0.7"));
        assert_eq!(acme.base.as_deref(), Some("version: 2"));
    }

    #[test]
    fn an_invalid_entry_is_reported_and_the_others_stay() {
        let text = "a: {schema: x}\nb: {image: 'b:1', baseConfig: {configMapName: absent}}\nc: {image: 'c:1', imag: x}\nd: {image: 'd:1'}";
        let overrides = "e: ':::'";
        let settings = parsed(&[(DISTRIBUTIONS, text), (IMAGE_OVERRIDES, overrides)], &[]);
        let problem = |name| known(&settings, name).unwrap_err();
        assert!(problem("a").contains("distributions.a: image is required"));
        assert!(problem("b").contains("\"absent\""));
        assert!(problem("c").contains("imag"));
        assert!(problem("e").contains("image-overrides.e"));
        assert_eq!(known(&settings, "d").unwrap().image, "d:1");
        assert!(known(&settings, "starter").is_ok());
    }

    #[test]
    fn an_invalid_mirror_is_reported() {
        let text = |to: &str| format!("- {{from: docker.io, to: '{to}'}}");
        let read = |to: &str| parsed(&[(MIRRORS, &text(to))], &[]).mirrors;
        assert_eq!(read("mirror.local/hub").unwrap().len(), 1);
        assert!(
            read("https://mirror.local")
                .unwrap_err()
                .contains("mirrors[0]")
        );
    }
}

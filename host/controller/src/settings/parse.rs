//! From the texts of the operator's ConfigMap to what they say, part by part.
//!
//! In: the keys of the ConfigMap, and the ConfigMaps with bases that it names. Out: each part, or what
//! is wrong with it and how to mend it. One bad entry spoils neither its neighbours nor other parts.

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

/// What a ConfigMap holds.
pub(super) type Texts = BTreeMap<String, String>;
/// A part, or what is wrong with it.
pub(super) type Read<T> = Result<T, String>;

/// What one version of the ConfigMap says.
pub(super) struct Reading {
    pub(super) network_policy: Read<bool>,
    pub(super) distributions: Read<BTreeMap<String, Read<KnownDistribution>>>,
    pub(super) mirrors: Read<Vec<Mirror>>,
}

/// The same before the bases that it names are read.
pub(super) struct Stated {
    network_policy: Read<bool>,
    distributions: Read<StatedDistributions>,
    mirrors: Read<Vec<Mirror>>,
}

#[derive(Default)]
struct StatedDistributions {
    images: BTreeMap<String, String>,
    entries: BTreeMap<String, Read<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    image: Option<String>,
    schema: Option<String>,
    base_config: Option<BaseConfig>,
}

/// As the first operator wrote them. Flags that we do not have are left alone.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FeatureFlags {
    enable_network_policy: Switch,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Switch {
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedMirror {
    from: String,
    to: String,
}

/// Reads the texts. Where a key is absent, its part says nothing.
pub(super) fn read(texts: &Texts) -> Stated {
    let flags: Read<FeatureFlags> = part(texts, FEATURE_FLAGS);
    let images = part(texts, IMAGE_OVERRIDES);
    let entries: Read<BTreeMap<String, Value>> = part(texts, DISTRIBUTIONS);
    let entries = entries.map(|all| {
        let read = |(name, value): (String, Value)| {
            let entry = serde_json::from_value(value)
                .map_err(|error| problem(&format!("{DISTRIBUTIONS}.{name}"), &error));
            (name, entry)
        };
        all.into_iter().map(read).collect()
    });
    Stated {
        network_policy: flags.map(|flags| flags.enable_network_policy.enabled),
        distributions: images
            .and_then(|images| entries.map(|entries| StatedDistributions { images, entries })),
        mirrors: mirrors(texts),
    }
}

impl Stated {
    /// Names of the ConfigMaps with bases, which are in the operator's namespace.
    pub(super) fn bases(&self) -> BTreeSet<String> {
        let entries = self
            .distributions
            .iter()
            .flat_map(|all| all.entries.values());
        entries
            .filter_map(|entry| entry.as_ref().ok()?.base_config.as_ref())
            .map(|base| base.config_map_name.clone())
            .collect()
    }

    /// Puts the bases in. `found` are those ConfigMaps that exist.
    pub(super) fn complete(self, found: &BTreeMap<String, Texts>) -> Reading {
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
        Reading {
            network_policy: self.network_policy,
            distributions,
            mirrors: self.mirrors,
        }
    }
}

impl StatedDistributions {
    /// What is known of a name. What is built in fits its own release alone: of another image the
    /// entry must tell, or the image itself.
    fn known(
        &self,
        name: &str,
        builtin: Option<&KnownDistribution>,
        found: &BTreeMap<String, Texts>,
    ) -> Read<KnownDistribution> {
        let entry = match self.entries.get(name) {
            Some(entry) => Some(entry.as_ref().map_err(Clone::clone)?),
            None => None,
        };
        let (place, image) = match self.images.get(name) {
            Some(image) => (IMAGE_OVERRIDES, Some(image)),
            None => (DISTRIBUTIONS, entry.and_then(|entry| entry.image.as_ref())),
        };
        let place = format!("{place}.{name}");
        let image = image.or(builtin.map(|known| &known.image));
        let image = image.ok_or_else(|| problem(&place, &"no image is given; add one"))?;
        let reference: Reference = image.parse().map_err(|error| problem(&place, &error))?;
        let builtin = builtin.filter(|known| {
            let own = known.image.parse::<Reference>();
            own.is_ok_and(|own| own.tag() == reference.tag())
        });
        let base = match entry.and_then(|entry| entry.base_config.as_ref()) {
            Some(base) => Some(base_text(name, base, found)?),
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

fn base_text(name: &str, base: &BaseConfig, found: &BTreeMap<String, Texts>) -> Read<String> {
    let BaseConfig {
        config_map_name,
        key,
    } = base;
    let place = format!("{DISTRIBUTIONS}.{name}.baseConfig");
    let key = key.as_deref().unwrap_or(DEFAULT_CONFIG_KEY);
    let texts = found.get(config_map_name).ok_or_else(|| {
        let missing = format!("the operator's namespace has no ConfigMap {config_map_name:?}; create it with the key {key:?}");
        problem(&place, &missing)
    })?;
    let text = texts.get(key).ok_or_else(|| {
        let missing = format!("the ConfigMap {config_map_name:?} has no key {key:?}; add it");
        problem(&place, &missing)
    })?;
    match yaml::read(text) {
        Ok(_) => Ok(text.clone()),
        Err(error) => Err(problem(
            &place,
            &format!("the base is no server configuration: {error}"),
        )),
    }
}

fn mirrors(texts: &Texts) -> Read<Vec<Mirror>> {
    let stated: Vec<StatedMirror> = part(texts, MIRRORS)?;
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

/// One key of the ConfigMap.
fn part<T: DeserializeOwned + Default>(texts: &Texts, key: &str) -> Read<T> {
    match texts.get(key).filter(|text| !text.trim().is_empty()) {
        Some(text) => serde_saphyr::from_str(text).map_err(|error| problem(key, &error)),
        None => Ok(T::default()),
    }
}

fn problem(place: &str, what: &dyn std::fmt::Display) -> String {
    format!("the operator's ConfigMap {NAME:?}, {place}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(pairs: &[(&str, &str)], bases: &[(&str, &str)]) -> Reading {
        let texts = |pairs: &[(&str, &str)]| -> Texts {
            let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
            pairs.iter().map(own).collect()
        };
        let found = bases
            .iter()
            .map(|(name, text)| ((*name).to_owned(), texts(&[(DEFAULT_CONFIG_KEY, text)])));
        read(&texts(pairs)).complete(&found.collect())
    }

    fn known(reading: &Reading, name: &str) -> Read<KnownDistribution> {
        reading.distributions.as_ref().unwrap()[name].clone()
    }

    #[test]
    fn an_empty_config_map_leaves_what_is_built_in() {
        let reading = reading(&[], &[]);
        assert_eq!(reading.network_policy, Ok(false));
        assert_eq!(reading.mirrors, Ok(Vec::new()));
        for (name, builtin) in distributions::builtin() {
            assert_eq!(known(&reading, &name), Ok(builtin));
        }
    }

    #[test]
    fn the_flag_is_read_as_the_first_operator_wrote_it() {
        for (text, expected) in [
            ("enableNetworkPolicy:\n  enabled: true\n", true),
            ("enableNetworkPolicy: {enabled: false}", false),
            ("anotherFlag: {enabled: true}", false),
        ] {
            let reading = reading(&[(FEATURE_FLAGS, text)], &[]);
            assert_eq!(reading.network_policy, Ok(expected), "{text}");
        }
        let bad = reading(
            &[(FEATURE_FLAGS, "enableNetworkPolicy: {enabled: maybe}")],
            &[],
        );
        assert!(bad.network_policy.unwrap_err().contains("featureFlags"));
        assert!(bad.distributions.is_ok());
    }

    #[test]
    fn a_copy_of_the_built_in_release_keeps_its_base_and_another_release_does_not() {
        let text = "starter: mirror.local/starter:0.7.1\nremote-vllm: mirror.local/vllm:0.4.0";
        let reading = reading(&[(IMAGE_OVERRIDES, text)], &[]);
        let copy = known(&reading, "starter").unwrap();
        assert_eq!(copy.image, "mirror.local/starter:0.7.1");
        assert!(copy.base.is_some() && copy.schema.is_some());
        let other = known(&reading, "remote-vllm").unwrap();
        assert_eq!((other.base, other.schema), (None, None));
    }

    #[test]
    fn a_name_that_only_the_config_map_knows_comes_with_its_schema_and_base() {
        let text = "acme: {image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: base}}";
        let reading = reading(&[(DISTRIBUTIONS, text)], &[("base", "version: 2")]);
        let acme = known(&reading, "acme").unwrap();
        assert_eq!(acme.schema.as_deref(), Some("llama-stack/0.7"));
        assert_eq!(acme.base.as_deref(), Some("version: 2"));
    }

    #[test]
    fn a_bad_entry_is_named_and_the_others_stay() {
        let text = "a: {schema: x}\nb: {image: 'b:1', baseConfig: {configMapName: absent}}\nc: {image: 'c:1', imag: x}\nd: {image: 'd:1'}";
        let overrides = "e: ':::'";
        let reading = reading(&[(DISTRIBUTIONS, text), (IMAGE_OVERRIDES, overrides)], &[]);
        let problem = |name| known(&reading, name).unwrap_err();
        assert!(problem("a").contains("distributions.a: no image"));
        assert!(problem("b").contains("\"absent\""));
        assert!(problem("c").contains("imag"));
        assert!(problem("e").contains("image-overrides.e"));
        assert_eq!(known(&reading, "d").unwrap().image, "d:1");
        assert!(known(&reading, "starter").is_ok());
    }

    #[test]
    fn a_mirror_that_leads_nowhere_is_refused() {
        let text = |to: &str| format!("- {{from: docker.io, to: '{to}'}}");
        let read = |to: &str| reading(&[(MIRRORS, &text(to))], &[]).mirrors;
        assert_eq!(read("mirror.local/hub").unwrap().len(), 1);
        assert!(
            read("https://mirror.local")
                .unwrap_err()
                .contains("mirrors[0]")
        );
    }
}

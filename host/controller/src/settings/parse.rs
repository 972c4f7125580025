//! Parses the operator's ConfigMap, part by part.
//!
//! In: the data of the ConfigMap, and of the ConfigMaps with base configurations that it names. Out:
//! each part, or its problem and how to fix it. An invalid entry affects neither other entries nor
//! other parts. The distributions are parsed by `llsd_render`, because the command line parses them too.

use std::collections::{BTreeMap, BTreeSet};

use llsd_registry::{Mirror, Mirrors, Reference};
use llsd_render::distributions::KnownDistribution;
use llsd_render::distributions::settings::{StatedDistributions, part, problem};
use serde::Deserialize;

use super::RolloutSettings;
pub(super) use llsd_render::distributions::settings::{ConfigMapData, Parsed};

const FEATURE_FLAGS: &str = "featureFlags";
const MIRRORS: &str = "mirrors";
const OPENSHIFT: &str = "openshift";
const POD_TEMPLATE: &str = "podTemplate";
const ROLLOUTS: &str = "rollouts";

/// One version of the ConfigMap.
pub(super) struct ParsedSettings {
    pub(super) network_policy: Parsed<bool>,
    pub(super) distributions: Parsed<BTreeMap<String, Parsed<KnownDistribution>>>,
    pub(super) mirrors: Parsed<Vec<Mirror>>,
    pub(super) any_uid_namespaces: Parsed<BTreeSet<String>>,
    pub(super) privileged_namespaces: Parsed<BTreeSet<String>>,
    pub(super) rollouts: Parsed<RolloutSettings>,
}

/// One version of the ConfigMap, before the base configurations are loaded.
pub(super) struct StatedSettings {
    network_policy: Parsed<bool>,
    distributions: Parsed<StatedDistributions>,
    mirrors: Parsed<Vec<Mirror>>,
    any_uid_namespaces: Parsed<BTreeSet<String>>,
    privileged_namespaces: Parsed<BTreeSet<String>>,
    rollouts: Parsed<RolloutSettings>,
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

/// What the installer allows on OpenShift.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct OpenShift {
    anyuid_namespaces: BTreeSet<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodTemplate {
    privileged_namespaces: BTreeSet<String>,
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
    let openshift: Parsed<OpenShift> = part(data, OPENSHIFT);
    let pod_template: Parsed<PodTemplate> = part(data, POD_TEMPLATE);
    StatedSettings {
        network_policy: flags.map(|flags| flags.enable_network_policy.enabled),
        distributions: StatedDistributions::parse(data),
        mirrors: mirrors(data),
        any_uid_namespaces: openshift.map(|openshift| openshift.anyuid_namespaces),
        privileged_namespaces: pod_template.map(|template| template.privileged_namespaces),
        rollouts: rollouts(data),
    }
}

impl StatedSettings {
    /// Names of the ConfigMaps with base configurations, in the operator's namespace.
    pub(super) fn base_config_maps(&self) -> BTreeSet<String> {
        let distributions = self.distributions.as_ref();
        distributions.map_or_else(|_| BTreeSet::new(), StatedDistributions::base_config_maps)
    }

    /// Adds the base configurations. `found` are the ConfigMaps that exist.
    pub(super) fn with_bases(self, found: &BTreeMap<String, ConfigMapData>) -> ParsedSettings {
        let check_image = |image: &str| match image.parse::<Reference>() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        ParsedSettings {
            network_policy: self.network_policy,
            distributions: self
                .distributions
                .map(|stated| stated.with_bases(found, &check_image)),
            mirrors: self.mirrors,
            any_uid_namespaces: self.any_uid_namespaces,
            privileged_namespaces: self.privileged_namespaces,
            rollouts: self.rollouts,
        }
    }
}

fn rollouts(data: &ConfigMapData) -> Parsed<RolloutSettings> {
    let stated: RolloutSettings = part(data, ROLLOUTS)?;
    match stated.max_concurrent {
        0 => Err(problem(
            &format!("{ROLLOUTS}.maxConcurrent"),
            &"must be at least 1",
        )),
        _ => Ok(stated),
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

#[cfg(test)]
mod tests {
    use llsd_api::checked::DEFAULT_CONFIG_KEY;
    use llsd_render::distributions;

    use super::*;

    const IMAGE_OVERRIDES: &str = "image-overrides";
    const DISTRIBUTIONS: &str = "distributions";

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
    fn no_namespace_may_use_any_uid_unless_the_installer_lists_it() {
        let namespaces = |data: &[(&str, &str)]| parsed(data, &[]).any_uid_namespaces;
        assert_eq!(namespaces(&[]), Ok(BTreeSet::new()));
        assert_eq!(
            namespaces(&[(OPENSHIFT, "anyuidNamespaces: [ml]")]),
            Ok(BTreeSet::from(["ml".to_owned()]))
        );
        let error = namespaces(&[(OPENSHIFT, "anyuidNamespace: ml")]).unwrap_err();
        assert!(error.contains("anyuidNamespace"), "{error}");
    }

    #[test]
    fn no_namespace_may_have_privileged_pods_unless_the_installer_lists_it() {
        let namespaces = |data: &[(&str, &str)]| parsed(data, &[]).privileged_namespaces;
        assert_eq!(namespaces(&[]), Ok(BTreeSet::new()));
        assert_eq!(
            namespaces(&[(POD_TEMPLATE, "privilegedNamespaces: [gpu]")]),
            Ok(BTreeSet::from(["gpu".to_owned()]))
        );
        let error = namespaces(&[(POD_TEMPLATE, "privileged: true")]).unwrap_err();
        assert!(error.contains("privileged"), "{error}");
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

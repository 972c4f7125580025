//! The operator's own settings: the ConfigMap `llama-stack-operator-config` in the operator's
//! namespace. llama-stack-k8s-operator uses the same name.
//!
//! The settings are loaded again whenever the ConfigMap changes, or a ConfigMap with a base
//! configuration that it names. If a part is invalid, its last valid value stays in effect; if there
//! was none, the resources that depend on the part wait. So an error in the settings never changes
//! what runs.
//!
//! Imports only `images`, `process` and `cache`.

mod load;
mod parse;
mod rollouts;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use llsd_registry::Mirror;
use llsd_render::distributions::{self, KnownDistribution};

pub(crate) use llsd_api::schema_plugin::Existing;
use parse::{Parsed, ParsedSettings};
pub(crate) use rollouts::RolloutSettings;
pub(crate) use watch::{CurrentSettings, SettingsWatcher};

/// The distributions that resources can use by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distributions {
    /// By name.
    pub known: BTreeMap<String, KnownDistribution>,
    /// Whether there may be more, because the settings are invalid or not loaded yet.
    pub may_be_incomplete: bool,
}

impl Distributions {
    /// The built-in distributions, until the settings are loaded.
    pub fn before_first_load() -> Self {
        Self {
            known: distributions::builtin(),
            may_be_incomplete: true,
        }
    }
}

/// Name of the ConfigMap.
pub(crate) const NAME: &str = distributions::settings::CONFIG_MAP_NAME;

/// The settings in effect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    network_policy: LastGood<bool>,
    distributions: LastGood<BTreeMap<String, LastGood<KnownDistribution>>>,
    mirrors: LastGood<Vec<Mirror>>,
    any_uid_namespaces: LastGood<BTreeSet<String>>,
    privileged_namespaces: LastGood<BTreeSet<String>>,
    rollouts: LastGood<RolloutSettings>,
    default_rollouts: RolloutSettings,
}

/// The last valid value of a part, and the problem of a newer one.
#[derive(Debug, Clone, PartialEq)]
struct LastGood<T> {
    value: Option<T>,
    problem: Option<String>,
}

/// A value in effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effective<'a, T> {
    pub(crate) value: &'a T,
    /// Why a newer value is not in effect.
    pub(crate) problem: Option<&'a str>,
}

/// A part of the ConfigMap is invalid and never had a valid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidSettings(String);

/// Why a distribution cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DistributionError {
    Invalid(InvalidSettings),
    /// Not found; these are the known names.
    NotFound(Vec<String>),
}

impl From<InvalidSettings> for DistributionError {
    fn from(invalid: InvalidSettings) -> Self {
        Self::Invalid(invalid)
    }
}

impl Settings {
    /// The settings without a ConfigMap.
    pub(crate) fn without_config_map() -> Self {
        let empty = BTreeMap::new();
        Self::after(None, parse::parse(&empty).with_bases(&BTreeMap::new()))
    }

    /// Loads the settings as an operator that starts now.
    pub(crate) async fn load(
        client: &Client,
        operator_namespace: &str,
    ) -> Result<Self, kube::Error> {
        let (parsed, _) = load::load(client, operator_namespace).await?;
        Ok(Self::after(None, parsed))
    }

    /// The settings in effect after the ConfigMap was parsed again.
    fn after(old: Option<&Self>, parsed: ParsedSettings) -> Self {
        let ParsedSettings {
            network_policy,
            distributions,
            mirrors,
            any_uid_namespaces,
            privileged_namespaces,
            rollouts,
        } = parsed;
        let known = old.and_then(|old| old.distributions.value.as_ref());
        let distributions = distributions.map(|all| {
            let update = |(name, parsed): (String, Parsed<KnownDistribution>)| {
                let last = known.and_then(|known| known.get(&name));
                (name, LastGood::after(last, parsed))
            };
            all.into_iter().map(update).collect()
        });
        Self {
            network_policy: LastGood::after(old.map(|old| &old.network_policy), network_policy),
            distributions: LastGood::after(old.map(|old| &old.distributions), distributions),
            mirrors: LastGood::after(old.map(|old| &old.mirrors), mirrors),
            any_uid_namespaces: LastGood::after(
                old.map(|old| &old.any_uid_namespaces),
                any_uid_namespaces,
            ),
            privileged_namespaces: LastGood::after(
                old.map(|old| &old.privileged_namespaces),
                privileged_namespaces,
            ),
            rollouts: LastGood::after(old.map(|old| &old.rollouts), rollouts),
            default_rollouts: RolloutSettings::default(),
        }
    }

    /// Looks a distribution up by name.
    pub(crate) fn distribution(
        &self,
        name: &str,
    ) -> Result<Effective<'_, KnownDistribution>, DistributionError> {
        let all = self.distributions.effective()?;
        match (all.value.get(name), all.problem) {
            (Some(known), problem) => {
                let known = known.effective()?;
                let problem = known.problem.or(problem);
                Ok(Effective { problem, ..known })
            }
            // The invalid part may define it.
            (None, Some(problem)) => Err(InvalidSettings(problem.to_owned()).into()),
            (None, None) => Err(DistributionError::NotFound(
                all.value.keys().cloned().collect(),
            )),
        }
    }

    /// Whether resources that were created as v1alpha1 have network policies.
    pub(crate) fn network_policy(&self) -> Result<Effective<'_, bool>, InvalidSettings> {
        self.network_policy.effective()
    }

    /// Every valid distribution.
    fn distributions(&self) -> Distributions {
        let LastGood { value, problem } = &self.distributions;
        let Some(all) = value else {
            return Distributions::before_first_load();
        };
        let usable = all
            .iter()
            .filter_map(|(name, known)| Some((name.clone(), known.value.clone()?)));
        let known: BTreeMap<_, _> = usable.collect();
        Distributions {
            may_be_incomplete: problem.is_some() || known.len() < all.len(),
            known,
        }
    }

    /// The image of every valid distribution, by name.
    pub(crate) fn distribution_images(&self) -> BTreeMap<String, String> {
        let all = self.distributions.value.iter().flatten();
        all.filter_map(|(name, known)| Some((name.clone(), known.value.as_ref()?.image.clone())))
            .collect()
    }

    /// The registry mirrors.
    pub(crate) fn mirrors(&self) -> Result<Effective<'_, Vec<Mirror>>, InvalidSettings> {
        self.mirrors.effective()
    }

    /// Whether the pods of a namespace may run as any user on OpenShift. No namespace may, while the
    /// setting was never valid.
    pub(crate) fn allows_any_uid(&self, namespace: &str) -> bool {
        let namespaces = self.any_uid_namespaces.value.as_ref();
        namespaces.is_some_and(|all| all.contains(namespace))
    }

    /// Whether the pods of a namespace may have privileges on their nodes. No namespace may, while the
    /// setting was never valid.
    pub(crate) fn allows_privileged_pods(&self, namespace: &str) -> bool {
        let namespaces = self.privileged_namespaces.value.as_ref();
        namespaces.is_some_and(|all| all.contains(namespace))
    }

    /// How existing resources follow what the installer changes: the defaults, while the setting was
    /// never valid.
    pub(crate) fn rollouts(&self) -> &RolloutSettings {
        self.rollouts
            .value
            .as_ref()
            .unwrap_or(&self.default_rollouts)
    }

    /// Every problem of the ConfigMap.
    fn problems(&self) -> Vec<&str> {
        let Self {
            network_policy,
            distributions,
            mirrors,
            any_uid_namespaces,
            privileged_namespaces,
            rollouts,
            default_rollouts: _,
        } = self;
        let entries = distributions.value.iter().flat_map(BTreeMap::values);
        let mut all: Vec<&str> = [
            &network_policy.problem,
            &distributions.problem,
            &mirrors.problem,
            &any_uid_namespaces.problem,
            &privileged_namespaces.problem,
            &rollouts.problem,
        ]
        .into_iter()
        .chain(entries.map(|entry| &entry.problem))
        .flatten()
        .map(String::as_str)
        .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl<T: Clone> LastGood<T> {
    fn after(old: Option<&Self>, parsed: Parsed<T>) -> Self {
        match parsed {
            Ok(value) => Self {
                value: Some(value),
                problem: None,
            },
            Err(problem) => Self {
                value: old.and_then(|old| old.value.clone()),
                problem: Some(problem),
            },
        }
    }

    fn effective(&self) -> Result<Effective<'_, T>, InvalidSettings> {
        let problem = self.problem.as_deref();
        match &self.value {
            Some(value) => Ok(Effective { value, problem }),
            None => Err(InvalidSettings(problem.unwrap_or_default().to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(image: &str) -> KnownDistribution {
        KnownDistribution {
            image: image.to_owned(),
            schema: None,
            base: None,
            user: None,
        }
    }

    fn parsed(distributions: Parsed<Vec<(&str, Parsed<&str>)>>) -> ParsedSettings {
        let entry = |(name, parsed): (&str, Parsed<&str>)| (name.to_owned(), parsed.map(known));
        ParsedSettings {
            network_policy: Ok(true),
            distributions: distributions.map(|all| all.into_iter().map(entry).collect()),
            mirrors: Ok(Vec::new()),
            any_uid_namespaces: Ok(BTreeSet::new()),
            privileged_namespaces: Ok(BTreeSet::new()),
            rollouts: Ok(RolloutSettings::default()),
        }
    }

    fn image(settings: &Settings, name: &str) -> Result<(String, bool), DistributionError> {
        let found = settings.distribution(name)?;
        Ok((found.value.image.clone(), found.problem.is_some()))
    }

    #[test]
    fn an_invalid_entry_keeps_its_last_valid_value_and_reports_the_problem() {
        let first = Settings::after(None, parsed(Ok(vec![("a", Ok("a:1")), ("b", Ok("b:1"))])));
        let bad = Err("bad".to_owned());
        let second = parsed(Ok(vec![("a", bad), ("b", Ok("b:2"))]));
        let second = Settings::after(Some(&first), second);
        assert_eq!(image(&second, "a"), Ok(("a:1".to_owned(), true)));
        assert_eq!(image(&second, "b"), Ok(("b:2".to_owned(), false)));
        assert_eq!(second.problems(), ["bad"]);
    }

    #[test]
    fn an_unparsable_part_keeps_all_names_until_it_is_fixed() {
        let valid = || parsed(Ok(vec![("a", Ok("a:1"))]));
        let first = Settings::after(None, valid());
        let second = Settings::after(Some(&first), parsed(Err("unparsable".to_owned())));
        assert_eq!(image(&second, "a"), Ok(("a:1".to_owned(), true)));
        assert_eq!(
            image(&second, "new"),
            Err(InvalidSettings("unparsable".to_owned()).into())
        );
        let third = Settings::after(Some(&second), valid());
        assert_eq!(third, first);
        let names = vec!["a".to_owned()];
        assert_eq!(
            image(&third, "new"),
            Err(DistributionError::NotFound(names))
        );
    }

    #[test]
    fn distributions_may_be_incomplete_while_a_part_is_invalid() {
        let of = |settings: &Settings| {
            let Distributions {
                known,
                may_be_incomplete,
            } = settings.distributions();
            (known.into_keys().collect::<Vec<_>>(), may_be_incomplete)
        };
        let unparsable = || parsed(Err("unparsable".to_owned()));
        let first = Settings::after(None, unparsable());
        assert_eq!(first.distributions(), Distributions::before_first_load());
        let valid = Settings::after(None, parsed(Ok(vec![("a", Ok("a:1"))])));
        assert_eq!(of(&valid), (vec!["a".to_owned()], false));
        let unparsable = Settings::after(Some(&valid), unparsable());
        assert_eq!(of(&unparsable), (vec!["a".to_owned()], true));
        let partial = parsed(Ok(vec![("a", Ok("a:1")), ("b", Err("bad".to_owned()))]));
        assert_eq!(
            of(&Settings::after(None, partial)),
            (vec!["a".to_owned()], true)
        );
    }

    #[test]
    fn a_part_that_was_never_valid_has_no_default() {
        let unparsable = ParsedSettings {
            network_policy: Err("flags".to_owned()),
            mirrors: Err("mirrors".to_owned()),
            ..parsed(Err("unparsable".to_owned()))
        };
        let first = Settings::after(None, unparsable);
        assert!(first.network_policy().is_err());
        assert!(first.mirrors().is_err());
        assert!(image(&first, "starter").is_err());
    }
}

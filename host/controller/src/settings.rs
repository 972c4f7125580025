//! What the operator's own ConfigMap says: `llama-stack-operator-config` in the operator's namespace,
//! as the first operator called it.
//!
//! It is read again whenever it changes, or a base that it names. A part that cannot be used leaves the
//! last good reading of that part in force; where there has been none, what depends on it waits. So a
//! mistake there changes nothing that runs.

mod follow;
mod read;
mod registries;
mod source;

use std::collections::BTreeMap;

use kube::Client;
use llsd_registry::Mirror;
use llsd_render::distributions::{self, KnownDistribution};

use read::{Read, Reading};

pub(crate) use follow::{Configurations, Follower};
pub use registries::Registries;

/// The distributions that resources can name, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distributions {
    /// By name.
    pub known: BTreeMap<String, KnownDistribution>,
    /// Whether there may be others: in a ConfigMap that was not read yet, or cannot be.
    pub may_be_more: bool,
}

impl Distributions {
    /// Those that are built in, for as long as nothing else was read.
    pub fn before_first_reading() -> Self {
        Self {
            known: distributions::builtin(),
            may_be_more: true,
        }
    }
}

/// Name of the ConfigMap.
pub(crate) const NAME: &str = "llama-stack-operator-config";

/// What is in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    network_policy: Part<bool>,
    distributions: Part<BTreeMap<String, Part<KnownDistribution>>>,
    mirrors: Part<Vec<Mirror>>,
}

/// The last good value of a part, and what is wrong with a newer one.
#[derive(Debug, Clone, PartialEq)]
struct Part<T> {
    good: Option<T>,
    problem: Option<String>,
}

/// A value in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InForce<'a, T> {
    pub(crate) value: &'a T,
    /// Why a newer one is not in force.
    pub(crate) problem: Option<&'a str>,
}

/// The ConfigMap cannot be read where a value should be, and never could.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(String);

/// Why a distribution is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    Unreadable(Unreadable),
    /// There are only these.
    Unknown(Vec<String>),
}

impl From<Unreadable> for Missing {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

impl Configuration {
    /// What is in force where there is no ConfigMap.
    pub(crate) fn without_config_map() -> Self {
        let nothing = BTreeMap::new();
        Self::after(None, read::read(&nothing).complete(&BTreeMap::new()))
    }

    /// What an operator that starts now would put into force. `home` is the operator's own namespace.
    pub(crate) async fn at_start(client: &Client, home: &str) -> Result<Self, kube::Error> {
        let (reading, _) = source::read(client, home).await?;
        Ok(Self::after(None, reading))
    }

    /// What is in force after a reading.
    fn after(old: Option<&Self>, reading: Reading) -> Self {
        let Reading {
            network_policy,
            distributions,
            mirrors,
        } = reading;
        let known = old.and_then(|old| old.distributions.good.as_ref());
        let distributions = distributions.map(|all| {
            let keep = |(name, read): (String, Read<KnownDistribution>)| {
                let last = known.and_then(|known| known.get(&name));
                (name, Part::after(last, read))
            };
            all.into_iter().map(keep).collect()
        });
        Self {
            network_policy: Part::after(old.map(|old| &old.network_policy), network_policy),
            distributions: Part::after(old.map(|old| &old.distributions), distributions),
            mirrors: Part::after(old.map(|old| &old.mirrors), mirrors),
        }
    }

    /// What is known of a distribution.
    pub(crate) fn distribution(
        &self,
        name: &str,
    ) -> Result<InForce<'_, KnownDistribution>, Missing> {
        let all = self.distributions.in_force()?;
        match (all.value.get(name), all.problem) {
            (Some(known), problem) => {
                let known = known.in_force()?;
                let problem = known.problem.or(problem);
                Ok(InForce { problem, ..known })
            }
            // It may stand in the text that cannot be read.
            (None, Some(problem)) => Err(Unreadable(problem.to_owned()).into()),
            (None, None) => Err(Missing::Unknown(all.value.keys().cloned().collect())),
        }
    }

    /// Whether resources of the first version have network policies.
    pub(crate) fn network_policy(&self) -> Result<InForce<'_, bool>, Unreadable> {
        self.network_policy.in_force()
    }

    /// Every distribution that is known.
    fn distributions(&self) -> Distributions {
        let Part { good, problem } = &self.distributions;
        let Some(all) = good else {
            return Distributions::before_first_reading();
        };
        let usable = all
            .iter()
            .filter_map(|(name, known)| Some((name.clone(), known.good.clone()?)));
        let known: BTreeMap<_, _> = usable.collect();
        Distributions {
            may_be_more: problem.is_some() || known.len() < all.len(),
            known,
        }
    }

    /// Where images are read from instead.
    pub(crate) fn mirrors(&self) -> Result<InForce<'_, Vec<Mirror>>, Unreadable> {
        self.mirrors.in_force()
    }

    /// Everything that is wrong with the ConfigMap.
    fn problems(&self) -> Vec<&str> {
        let Self {
            network_policy,
            distributions,
            mirrors,
        } = self;
        let entries = distributions.good.iter().flat_map(BTreeMap::values);
        let mut all: Vec<&str> = [
            &network_policy.problem,
            &distributions.problem,
            &mirrors.problem,
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

impl<T: Clone> Part<T> {
    fn after(old: Option<&Self>, read: Read<T>) -> Self {
        match read {
            Ok(value) => Self {
                good: Some(value),
                problem: None,
            },
            Err(problem) => Self {
                good: old.and_then(|old| old.good.clone()),
                problem: Some(problem),
            },
        }
    }

    fn in_force(&self) -> Result<InForce<'_, T>, Unreadable> {
        let problem = self.problem.as_deref();
        match &self.good {
            Some(value) => Ok(InForce { value, problem }),
            None => Err(Unreadable(problem.unwrap_or_default().to_owned())),
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
        }
    }

    fn reading(distributions: Read<Vec<(&str, Read<&str>)>>) -> Reading {
        let entry = |(name, read): (&str, Read<&str>)| (name.to_owned(), read.map(known));
        Reading {
            network_policy: Ok(true),
            distributions: distributions.map(|all| all.into_iter().map(entry).collect()),
            mirrors: Ok(Vec::new()),
        }
    }

    fn image(configuration: &Configuration, name: &str) -> Result<(String, bool), Missing> {
        let found = configuration.distribution(name)?;
        Ok((found.value.image.clone(), found.problem.is_some()))
    }

    #[test]
    fn a_bad_entry_leaves_its_last_good_reading_and_says_so() {
        let first =
            Configuration::after(None, reading(Ok(vec![("a", Ok("a:1")), ("b", Ok("b:1"))])));
        let bad = Err("bad".to_owned());
        let second = reading(Ok(vec![("a", bad), ("b", Ok("b:2"))]));
        let second = Configuration::after(Some(&first), second);
        assert_eq!(image(&second, "a"), Ok(("a:1".to_owned(), true)));
        assert_eq!(image(&second, "b"), Ok(("b:2".to_owned(), false)));
        assert_eq!(second.problems(), ["bad"]);
    }

    #[test]
    fn a_text_that_cannot_be_read_leaves_all_names_and_mended_leaves_no_trace() {
        let good = || reading(Ok(vec![("a", Ok("a:1"))]));
        let first = Configuration::after(None, good());
        let second = Configuration::after(Some(&first), reading(Err("torn".to_owned())));
        assert_eq!(image(&second, "a"), Ok(("a:1".to_owned(), true)));
        assert_eq!(
            image(&second, "new"),
            Err(Unreadable("torn".to_owned()).into())
        );
        let third = Configuration::after(Some(&second), good());
        assert_eq!(third, first);
        let names = vec!["a".to_owned()];
        assert_eq!(image(&third, "new"), Err(Missing::Unknown(names)));
    }

    #[test]
    fn there_may_be_more_distributions_than_those_of_a_text_that_cannot_be_read() {
        let of = |configuration: &Configuration| {
            let Distributions { known, may_be_more } = configuration.distributions();
            (known.into_keys().collect::<Vec<_>>(), may_be_more)
        };
        let torn = || reading(Err("torn".to_owned()));
        let first = Configuration::after(None, torn());
        assert_eq!(first.distributions(), Distributions::before_first_reading());
        let good = Configuration::after(None, reading(Ok(vec![("a", Ok("a:1"))])));
        assert_eq!(of(&good), (vec!["a".to_owned()], false));
        let torn = Configuration::after(Some(&good), torn());
        assert_eq!(of(&torn), (vec!["a".to_owned()], true));
        let half = reading(Ok(vec![("a", Ok("a:1")), ("b", Err("bad".to_owned()))]));
        assert_eq!(
            of(&Configuration::after(None, half)),
            (vec!["a".to_owned()], true)
        );
    }

    #[test]
    fn what_was_never_good_is_unknown_rather_than_a_default() {
        let torn = Reading {
            network_policy: Err("flags".to_owned()),
            mirrors: Err("mirrors".to_owned()),
            ..reading(Err("torn".to_owned()))
        };
        let first = Configuration::after(None, torn);
        assert!(first.network_policy().is_err());
        assert!(first.mirrors().is_err());
        assert!(image(&first, "starter").is_err());
    }
}

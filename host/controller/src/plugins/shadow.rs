//! What a version would change, before it takes over.
//!
//! Every resource is generated twice: with the plugins in use, and with the version in its place. What
//! runs is not touched, and no fault that shows here counts against a plugin.

use std::fmt;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use llsd_api::schema_plugin::ShadowSummary;
use llsd_api::{Distribution, check};
use llsd_plugin::Plugin;
use llsd_render::Generated;
use serde_json::Value;

use crate::context::Context;
use crate::expand::{self, generate_with};
use crate::gather::{Source, gather};
use crate::reconcile::owner;

/// Resources that are compared at the same time.
const AT_ONCE: usize = 4;
/// As many as the status has room for, and as long.
const MOST_EXAMPLES: usize = 16;
const LONGEST_EXAMPLE: usize = 1024;
/// Places of one configuration that an example names.
const MOST_PLACES: usize = 3;

/// Every resource, and what it takes to generate its configuration.
pub(crate) struct Resources {
    pub(crate) all: Store<DeserializeGuard<Distribution>>,
    pub(crate) context: Arc<Context>,
}

/// What all resources would become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) summary: ShadowSummary,
    /// Resources that cannot be read for the moment, so that nobody knows what becomes of them.
    pub(super) unread: i32,
}

/// What one resource would become.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Same,
    /// The places that change.
    Changed(String),
    /// Why it is refused from then on.
    Refused(String),
    Unread,
}

impl Resources {
    /// Compares two sets of plugins by what they make of every resource. `None`: the operator ends.
    pub(super) async fn compare(
        &self,
        before: &Arc<[Plugin]>,
        after: &Arc<[Plugin]>,
    ) -> Option<Comparison> {
        self.all.wait_until_ready().await.ok()?;
        self.context.view.complete().await;
        let mut all = self.all.state();
        all.sort_by_key(|one| (one.namespace(), one.name_any()));
        let fates = stream::iter(all).map(|one| async move {
            let cr = one.0.as_ref().ok()?;
            let name = format!("{}/{}", cr.namespace().unwrap_or_default(), cr.name_any());
            Some((name, self.fate(cr, before, after).await?))
        });
        let fates: Vec<_> = fates.buffered(AT_ONCE).collect().await;
        Some(Comparison::of(fates.into_iter().flatten()))
    }

    /// What becomes of a resource. `None`: nothing is generated for it, or nothing can be before
    /// somebody mends it.
    async fn fate(
        &self,
        cr: &Distribution,
        before: &Arc<[Plugin]>,
        after: &Arc<[Plugin]>,
    ) -> Option<Fate> {
        let Context {
            contents,
            configurations,
            images,
            ..
        } = &*self.context;
        let checked = check(cr).ok()?;
        let configuration = configurations.current().await;
        let gathered = match gather(contents, &configuration, images, &checked, &owner(cr)).await {
            Ok(gathered) => gathered,
            Err(error) if error.waits_for_somebody() => return None,
            Err(_) => return Some(Fate::Unread),
        };
        let Source::Base { config, hints, .. } = &gathered.source else {
            return None;
        };
        let generate = |plugins: &Arc<[Plugin]>| {
            generate_with(plugins.clone(), &checked, config, hints, &gathered.packages)
        };
        let now = generate(before).await;
        let then = generate(after).await;
        Some(Fate::of(now, then))
    }
}

impl Fate {
    fn of(now: Result<Generated, expand::Error>, then: Result<Generated, expand::Error>) -> Self {
        match (now, then) {
            // What is refused now has nothing to lose.
            (Err(_), _) => Self::Same,
            (Ok(_), Err(error)) => Self::Refused(error.to_string()),
            (Ok(now), Ok(then)) => match places(&now, &then) {
                places if places.is_empty() => Self::Same,
                places => Self::Changed(shorten(&places)),
            },
        }
    }
}

impl Comparison {
    fn of(fates: impl IntoIterator<Item = (String, Fate)>) -> Self {
        let mut all = Self::default();
        let Self { summary, unread } = &mut all;
        for (name, fate) in fates {
            let example = match fate {
                Fate::Unread => {
                    *unread += 1;
                    continue;
                }
                Fate::Same => None,
                Fate::Changed(places) => {
                    summary.changed += 1;
                    Some(format!("{name}: {places}"))
                }
                Fate::Refused(why) => {
                    summary.refused += 1;
                    let first = why.lines().next().unwrap_or_default();
                    Some(format!("{name}: refused: {first}"))
                }
            };
            summary.compared += 1;
            if let Some(mut example) = example.filter(|_| summary.examples.len() < MOST_EXAMPLES) {
                example.truncate(example.floor_char_boundary(LONGEST_EXAMPLE));
                summary.examples.push(example);
            }
        }
        all
    }

    /// Resources that are not known to stay as they are.
    pub(super) fn differing(&self) -> i32 {
        self.summary.changed + self.summary.refused + self.unread
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { summary, unread } = self;
        f.write_str(&words(summary))?;
        match unread {
            0 => Ok(()),
            unread => write!(f, ", {unread} cannot be read for the moment"),
        }
    }
}

/// A comparison in words.
pub(super) fn words(summary: &ShadowSummary) -> String {
    let ShadowSummary {
        compared,
        changed,
        refused,
        examples: _,
    } = summary;
    format!("{compared} resources compared: {changed} change, {refused} are refused")
}

/// Where two results differ, as far as anything that runs depends on it. Names only: whoever reads the
/// status of a plugin need not be allowed to read every resource.
fn places(now: &Generated, then: &Generated) -> Vec<String> {
    let mut places = Vec::new();
    collect("", &now.config, &then.config, &mut places);
    if now.variables != then.variables {
        places.push("the variables of the pod".to_owned());
    }
    if now.startup != then.startup {
        places.push("how the server is started".to_owned());
    }
    if places.is_empty() && now.yaml != then.yaml {
        places.push("the order of keys".to_owned());
    }
    places
}

fn collect(path: &str, now: &Value, then: &Value, places: &mut Vec<String>) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            let added = then.keys().filter(|key| !now.contains_key(*key));
            for key in now.keys().chain(added) {
                let below = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                match (of(now), of(then)) {
                    (Some(now), Some(then)) => collect(&below, &now, &then, places),
                    _ => places.push(below),
                }
            }
        }
        (Value::Array(now), Value::Array(then)) if now.len() == then.len() => {
            for (position, (now, then)) in now.iter().zip(then).enumerate() {
                collect(&format!("{path}[{position}]"), now, then, places);
            }
        }
        _ if now == then => {}
        _ => places.push(path.to_owned()),
    }
}

fn shorten(places: &[String]) -> String {
    let named = &places[..places.len().min(MOST_PLACES)];
    match places.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differing(now: Value, then: Value) -> String {
        let mut places = Vec::new();
        collect("", &now, &then, &mut places);
        shorten(&places)
    }

    #[test]
    fn a_difference_is_told_by_its_places_and_never_by_values() {
        let now = json!({
            "version": 2,
            "providers": {"inference": [{"config": {"url": "http://a", "retries": 1}}], "eval": []},
        });
        let then = json!({
            "version": 2,
            "providers": {"inference": [{"config": {"base_url": "http://a", "retries": 1}}], "eval": [{}]},
        });
        assert_eq!(
            differing(now.clone(), then),
            "providers.inference[0].config.url, providers.inference[0].config.base_url, providers.eval"
        );
        assert_eq!(differing(now.clone(), now.clone()), "");
        let all = json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5});
        assert_eq!(differing(all, json!({})), "a, b, c and 2 more");
    }

    #[test]
    fn resources_are_counted_and_the_first_of_those_that_differ_are_named() {
        let fate = |number: usize| match number {
            0 => Fate::Unread,
            1 => Fate::Same,
            2 => Fate::Refused("spec.providers: no\nand more".to_owned()),
            _ => Fate::Changed("version".to_owned()),
        };
        let all = (0..30).map(|number| (format!("ns/{number}"), fate(number)));
        let comparison = Comparison::of(all);
        let Comparison { summary, unread } = &comparison;
        assert_eq!((summary.compared, *unread), (29, 1));
        assert_eq!((summary.changed, summary.refused), (27, 1));
        assert_eq!(comparison.differing(), 29);
        assert_eq!(summary.examples.len(), MOST_EXAMPLES);
        assert_eq!(summary.examples[0], "ns/2: refused: spec.providers: no");
        assert_eq!(summary.examples[1], "ns/3: version");
    }
}

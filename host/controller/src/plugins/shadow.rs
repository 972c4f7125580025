//! The shadow step: compares what a new version would change before it is put into use.
//!
//! The configuration of every resource is generated with the new version, and compared with the one that
//! the plugins in use generate, or have generated and would generate again. Nothing that runs changes, and
//! faults do not count against the plugin.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use llsd_api::schema_plugin::ShadowSummary;
use llsd_api::{Distribution, check};
use llsd_plugin::Plugin;
use llsd_render::Generated;
use llsd_render::adapter::Adapter;
use llsd_render::objects::Kind;
use parking_lot::Mutex;
use serde_json::Value;

use crate::cache::ResourceStore;
use crate::reconcile::gather::{Source, gather, trusted_ca};
use crate::reconcile::generate::{self, generate_with};
use crate::reconcile::{Context, owner};

/// Resources that are compared concurrently.
const MAX_CONCURRENT: usize = 4;
/// How long a comparison waits for images that were not read yet.
const READ_TIME: Duration = Duration::from_secs(30);
/// The limits of the CRD for the examples in the status.
const MAX_EXAMPLES: usize = 16;
const MAX_EXAMPLE_BYTES: usize = 1024;
/// Changed resources whose paths are found. Comparisons that run at the same time end in any order.
const MAX_NAMED: usize = MAX_EXAMPLES + MAX_CONCURRENT;
/// Changed paths of one configuration that an example names.
const MAX_PATHS: usize = 3;

/// How long a comparison is used again. The status with its result causes another reconciliation at once.
const FRESH: Duration = Duration::from_secs(10);

/// All resources, and the context to generate their configurations.
pub(crate) struct Resources {
    store: ResourceStore,
    context: Arc<Context>,
    last: Mutex<Option<Last>>,
}

/// The last comparison.
struct Last {
    /// Digests of the plugins before and after.
    plugins: [Vec<String>; 2],
    at: Instant,
    comparison: Comparison,
}

/// The comparison of all resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) summary: ShadowSummary,
    /// Resources that cannot be read at the moment, so that the effect on them is unknown.
    pub(super) unread: i32,
}

/// The effect of a new version on one resource.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Same,
    /// The paths that change; `None` if enough other resources are examples.
    Changed(Option<String>),
    /// Why it would be rejected.
    Rejected(String),
    Unread,
}

impl Resources {
    pub(crate) fn new(store: ResourceStore, context: Arc<Context>) -> Self {
        Self {
            store,
            context,
            last: Mutex::default(),
        }
    }

    /// Compares the configurations that two sets of plugins generate, unless it did so just now. `None` if the
    /// operator is shutting down.
    pub(super) async fn compare(
        &self,
        before: &Arc<[Plugin]>,
        after: &Arc<[Plugin]>,
    ) -> Option<Comparison> {
        let plugins = [before, after].map(|all| digests(all));
        if let Some(last) = &*self.last.lock()
            && last.plugins == plugins
            && last.at.elapsed() < FRESH
        {
            return Some(last.comparison.clone());
        }
        let comparison = self.compare_all(before, after).await?;
        *self.last.lock() = Some(Last {
            plugins,
            at: Instant::now(),
            comparison: comparison.clone(),
        });
        Some(comparison)
    }

    async fn compare_all(
        &self,
        before: &Arc<[Plugin]>,
        after: &Arc<[Plugin]>,
    ) -> Option<Comparison> {
        self.store.wait_until_listed().await.ok()?;
        self.context.cache.complete().await;
        let mut all = self.store.all();
        all.sort_by_key(|one| (one.namespace(), one.name_any()));
        let read_until = Instant::now() + READ_TIME;
        let changed = &AtomicUsize::default();
        let effects = stream::iter(all).map(|one| async move {
            let cr = one.read().ok()?;
            let name = format!("{}/{}", cr.namespace().unwrap_or_default(), cr.name_any());
            let plugins = [before, after];
            let effect = self.effect(&cr, plugins, read_until, changed).await?;
            Some((name, effect))
        });
        let effects: Vec<_> = effects.buffered(MAX_CONCURRENT).collect().await;
        Some(Comparison::of(effects.into_iter().flatten()))
    }

    /// The effect on one resource. `None` if no configuration is generated for it, if the resource must
    /// be fixed first, or if its image cannot be read and nothing runs yet: such a resource must not
    /// prevent the promotion.
    async fn effect(
        &self,
        cr: &Distribution,
        [before, after]: [&Arc<[Plugin]>; 2],
        read_until: Instant,
        changed: &AtomicUsize,
    ) -> Option<Effect> {
        let Context {
            contents,
            settings,
            images,
            cache,
            revisions,
            ..
        } = &*self.context;
        let checked = check(cr).ok()?;
        let settings = settings.get().await;
        let owner = owner(cr);
        let images = images.waiting_until(read_until, &owner);
        let gathered = async {
            let ca = trusted_ca(contents, &checked, &owner).await?;
            gather(contents, &settings, &images, &checked, &owner, None, &ca).await
        };
        let gathered = match gathered.await {
            Ok(gathered) => gathered,
            Err(error) if error.waits_for_change() => return None,
            Err(_) => {
                let runs = cache.has_child(Kind::Deployment, &owner.namespace, &owner.name);
                return runs.then_some(Effect::Unread);
            }
        };
        let Source::Base { config, hints, .. } = &gathered.source else {
            return None;
        };
        let status = cr.status.clone().unwrap_or_default();
        let generate = |plugins: &Arc<[Plugin]>| {
            generate_with(plugins.clone(), &checked, &gathered, config, hints, &status)
        };
        let then = generate(after).await;
        if let Ok(then) = &then {
            if revisions.has_configuration(&owner, then) {
                return Some(Effect::Same);
            }
            let is_in_use = |component: &str| before.iter().any(|one| one.digest() == component);
            let generation = cr.metadata.generation;
            let basis = revisions.basis(&owner);
            let is_known =
                basis.is_some_and(|basis| basis.is_current(generation, &gathered, is_in_use));
            if is_known && changed.fetch_add(1, Ordering::Relaxed) >= MAX_NAMED {
                return Some(Effect::Changed(None));
            }
        }
        Some(Effect::of(generate(before).await, then))
    }
}

impl Effect {
    fn of(
        now: Result<Generated, generate::Error>,
        then: Result<Generated, generate::Error>,
    ) -> Self {
        match (now, then) {
            // A resource that is rejected now cannot get worse.
            (Err(_), _) => Self::Same,
            (Ok(_), Err(error)) => Self::Rejected(error.to_string()),
            (Ok(now), Ok(then)) => match changed_paths(&now, &then) {
                paths if paths.is_empty() => Self::Same,
                paths => Self::Changed(Some(shorten(&paths))),
            },
        }
    }
}

impl Comparison {
    fn of(effects: impl IntoIterator<Item = (String, Effect)>) -> Self {
        let mut all = Self::default();
        let Self { summary, unread } = &mut all;
        for (name, effect) in effects {
            let example = match effect {
                Effect::Unread => {
                    *unread += 1;
                    continue;
                }
                Effect::Same => None,
                Effect::Changed(paths) => {
                    summary.changed += 1;
                    paths.map(|paths| format!("{name}: {paths}"))
                }
                Effect::Rejected(problem) => {
                    summary.refused += 1;
                    let first = problem.lines().next().unwrap_or_default();
                    Some(format!("{name}: rejected: {first}"))
                }
            };
            summary.compared += 1;
            if let Some(mut example) = example.filter(|_| summary.examples.len() < MAX_EXAMPLES) {
                example.truncate(example.floor_char_boundary(MAX_EXAMPLE_BYTES));
                summary.examples.push(example);
            }
        }
        all
    }

    /// The number of resources that change, or may change.
    pub(super) fn differing(&self) -> i32 {
        self.summary.changed + self.summary.refused + self.unread
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { summary, unread } = self;
        f.write_str(&describe(summary))?;
        match unread {
            0 => Ok(()),
            unread => write!(f, ", {unread} cannot be read at the moment"),
        }
    }
}

fn digests(plugins: &[Plugin]) -> Vec<String> {
    plugins.iter().map(|one| one.digest().to_owned()).collect()
}

/// The summary as a message.
pub(super) fn describe(summary: &ShadowSummary) -> String {
    let ShadowSummary {
        compared,
        changed,
        refused,
        examples: _,
    } = summary;
    format!("{compared} resources compared: {changed} would change, {refused} would be rejected")
}

/// The paths at which two configurations differ, and other differences that affect the pods. Contains
/// no values, because readers of the status may not be allowed to read every resource.
fn changed_paths(now: &Generated, then: &Generated) -> Vec<String> {
    let mut paths = Vec::new();
    collect("", &now.config, &then.config, &mut paths);
    if now.variables != then.variables {
        paths.push("the environment variables of the pod".to_owned());
    }
    if now.startup != then.startup {
        paths.push("the start command of the server".to_owned());
    }
    if paths.is_empty() && now.yaml != then.yaml {
        paths.push("the order of keys".to_owned());
    }
    paths
}

fn collect(path: &str, now: &Value, then: &Value, paths: &mut Vec<String>) {
    match (now, then) {
        _ if now == then => {}
        (Value::Object(now), Value::Object(then)) => {
            let added = then.keys().filter(|key| !now.contains_key(*key));
            for key in now.keys().chain(added) {
                let below = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                match (now.get(key), then.get(key)) {
                    (Some(now), Some(then)) => collect(&below, now, then, paths),
                    _ => paths.push(below),
                }
            }
        }
        (Value::Array(now), Value::Array(then)) if now.len() == then.len() => {
            for (position, (now, then)) in now.iter().zip(then).enumerate() {
                collect(&format!("{path}[{position}]"), now, then, paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

fn shorten(paths: &[String]) -> String {
    let named = &paths[..paths.len().min(MAX_PATHS)];
    match paths.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differing(now: Value, then: Value) -> String {
        let mut paths = Vec::new();
        collect("", &now, &then, &mut paths);
        shorten(&paths)
    }

    #[test]
    fn a_difference_is_reported_by_paths_without_values() {
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
    fn resources_are_counted_and_the_first_differing_ones_are_examples() {
        let effect = |number: usize| match number {
            0 => Effect::Unread,
            1 => Effect::Same,
            2 => Effect::Rejected("spec.providers: no\nand more".to_owned()),
            _ => Effect::Changed(Some("version".to_owned())),
        };
        let all = (0..30).map(|number| (format!("ns/{number}"), effect(number)));
        let comparison = Comparison::of(all);
        let Comparison { summary, unread } = &comparison;
        assert_eq!((summary.compared, *unread), (29, 1));
        assert_eq!((summary.changed, summary.refused), (27, 1));
        assert_eq!(comparison.differing(), 29);
        assert_eq!(summary.examples.len(), MAX_EXAMPLES);
        assert_eq!(summary.examples[0], "ns/2: rejected: spec.providers: no");
        assert_eq!(summary.examples[1], "ns/3: version");
    }
}

//! How one version of the plugin that a `SchemaPlugin` names takes the place of another, and gives it
//! back.

use jiff::Timestamp;
use kube::ResourceExt;
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::{LoadedPlugin, SchemaPluginStatus, ShadowSummary};
use llsd_plugin::Plugin;
use llsd_registry::{PullError, Reference, Verdict, chain};
use llsd_render::adapter::Adapter;

use super::Plugins;
use super::adopt::load_kept;
use super::controller::Context;
use super::fetch::{Fetched, Fetcher};
use super::kept::Kept;
use super::rollout::held_back;
use super::set::Place;
use super::shadow::Resources;
use super::status::{Progress, describe};
use super::terms::Terms;
use crate::metrics::Metrics;

/// Reason of a version that failed too often.
pub(super) const QUARANTINED: &str = "Quarantined";
/// As many as the status has room for.
const MOST_QUARANTINED: usize = 16;

/// What one pass works with.
pub(super) struct Pass<'a> {
    pub(super) plugins: &'a Plugins,
    pub(super) resource: &'a SchemaPlugin,
    pub(super) terms: &'a Terms,
    fetcher: Fetcher<'a>,
    kept: Kept<'a>,
    resources: &'a Resources,
    metrics: &'a Metrics,
    pub(super) now: Timestamp,
}

/// How far it came, and what was said of the signatures; `None` when there was nothing to do.
pub(super) type Outcome = Option<(Progress, Option<Verdict>)>;

/// What came of trying a version out that went through every other step.
pub(super) struct Trial {
    /// What it would change; absent: it was not worth a look.
    pub(super) summary: Option<ShadowSummary>,
    /// Why it is not put into use by itself.
    pub(super) held_back: Option<Progress>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        ctx: &'a Context,
        resource: &'a SchemaPlugin,
        terms: &'a Terms,
        now: Timestamp,
    ) -> Self {
        let settings = &ctx.settings;
        Self {
            plugins: &ctx.plugins,
            resource,
            terms,
            fetcher: Fetcher {
                client: &settings.client,
                registry: settings.registries.current(),
                host: &settings.host,
                namespace: &settings.namespace,
            },
            kept: Kept::new(&settings.client, &settings.namespace, resource),
            resources: &settings.resources,
            metrics: &settings.metrics,
            now,
        }
    }

    /// The plugin that the resource names.
    pub(super) async fn named(
        &self,
        reference: &Reference,
        status: &mut SchemaPluginStatus,
    ) -> Outcome {
        let place = self.place(None);
        self.plugins
            .set
            .retain(&place.resource, std::slice::from_ref(&place));
        let is_reverted = self.revert(&place, status).await;
        self.restore(&place, status.current.as_ref()).await;
        let in_use = self.in_use(&place, status);
        if !is_reverted && is_settled(reference, status.current.as_ref(), &in_use) {
            return None;
        }
        let fetched = match self.fetch(reference, in_use).await {
            Ok(fetched) => fetched,
            Err(error) => return Some((Progress::Stopped(error), None)),
        };
        let newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
        let verdict = Some(fetched.pulled.verdict.clone());
        if !is_same(status.current.as_ref(), &newest) {
            let Trial { summary, held_back } = self.try_out(&place, &fetched.plugin).await?;
            status.shadow = summary.or(status.shadow.take());
            if let Some(waits) = held_back {
                await_turn(status, newest);
                return Some((waits, verdict));
            }
        }
        self.promote(place, &fetched).await;
        record(status, newest);
        self.tidy(status).await;
        Some((Progress::InUse, verdict))
    }

    /// Gives a place back to the version before, when the current one failed too often.
    async fn revert(&self, place: &Place, status: &mut SchemaPluginStatus) -> bool {
        let Some(bad) = status.current.take_if(|one| self.is_quarantined(one)) else {
            return false;
        };
        put_aside(status, bad.component_digest);
        self.plugins.set.remove(place);
        let previous = status.previous.take();
        if let Some(previous) = previous.filter(|one| !self.is_quarantined(one)) {
            self.restore(place, Some(&previous)).await;
            if self.plugins.set.at(place).is_some() {
                status.current = Some(previous);
            }
        }
        true
    }

    /// Fills an empty place with the bytes kept in the cluster.
    pub(super) async fn restore(&self, place: &Place, known: Option<&LoadedPlugin>) {
        let Some(known) = known.filter(|_| self.plugins.set.at(place).is_none()) else {
            return;
        };
        if let Ok(plugin) = load_kept(self.fetcher.host, &self.kept, known, &self.terms.grant).await
        {
            self.plugins.set.put(place.clone(), plugin);
        }
    }

    /// Brings the newest version through every step but the last.
    pub(super) async fn fetch(
        &self,
        reference: &Reference,
        in_use: Option<Plugin>,
    ) -> Result<Fetched, PullError> {
        let fetched = self.fetcher.fetch(reference, self.terms, in_use).await;
        let outcome = fetched
            .as_ref()
            .map_or_else(PullError::reason, |_| "Succeeded");
        self.metrics.count_plugin_fetch(outcome);
        fetched
    }

    /// Puts a version into use, and its bytes into the cluster.
    pub(super) async fn promote(&self, place: Place, fetched: &Fetched) {
        let Fetched {
            pulled,
            plugin,
            is_in_use,
        } = fetched;
        if !is_in_use {
            self.plugins.set.put(place, plugin.clone());
        }
        // Without them the next start has to wait for the registry, and goes on with what is built in
        // until it answers.
        if let Err(error) = self.kept.put(&pulled.bytes).await {
            let (digest, error) = (&pulled.layer_digest, chain(&error));
            tracing::warn!(%digest, %error, "the plugin is not kept in the cluster");
        }
    }

    /// Deletes the bytes of versions that nobody can return to.
    pub(super) async fn tidy(&self, status: &SchemaPluginStatus) {
        let proposed = status.proposals.iter().map(|one| &one.plugin);
        let all = [&status.current, &status.previous]
            .into_iter()
            .chain(proposed);
        let wanted = all
            .flatten()
            .filter_map(|one| one.component_digest.parse().ok())
            .collect::<Vec<_>>();
        if let Err(error) = self.kept.retain(&wanted).await {
            tracing::warn!(error = chain(&error), "old versions stay in the cluster");
        }
    }

    /// Compares what every resource would become with a version in its place, and asks the installer's
    /// rollout about it. `None`: the operator ends.
    pub(super) async fn try_out(&self, place: &Place, plugin: &Plugin) -> Option<Trial> {
        let digest = plugin.digest();
        if self.plugins.faults.is_quarantined(digest) {
            let message = format!("{digest} failed too often and is not used again");
            return Some(Trial {
                summary: None,
                held_back: Some(Progress::Waits(QUARANTINED, message)),
            });
        }
        let set = &self.plugins.set;
        let (now, then) = (set.current(), set.with(place, plugin));
        let comparison = self.resources.compare(&now, &then).await?;
        let held_back = held_back(self.resource.spec.rollout.as_ref(), digest, &comparison);
        Some(Trial {
            summary: Some(comparison.summary),
            held_back,
        })
    }

    /// The plugin in a place, unless the spec is another since: it may have other limits and keys, so
    /// that everything is done anew.
    pub(super) fn in_use(&self, place: &Place, status: &SchemaPluginStatus) -> Option<Plugin> {
        let is_observed = status.observed_generation == self.resource.metadata.generation;
        self.plugins.set.at(place).filter(|_| is_observed)
    }

    pub(super) fn is_quarantined(&self, plugin: &LoadedPlugin) -> bool {
        self.plugins.faults.is_quarantined(&plugin.component_digest)
    }

    pub(super) fn place(&self, proposed: Option<String>) -> Place {
        Place {
            resource: self.resource.name_any(),
            proposed,
        }
    }
}

/// Whether a pinned reference is in use already, so that nobody has to be asked.
pub(super) fn is_settled(
    reference: &Reference,
    known: Option<&LoadedPlugin>,
    in_use: &Option<Plugin>,
) -> bool {
    let (Some(pinned), Some(known), Some(in_use)) = (reference.digest(), known, in_use) else {
        return false;
    };
    known.manifest_digest.as_deref() == Some(&*pinned.to_string())
        && known.reference == reference.to_string()
        && known.component_digest == in_use.digest()
}

/// Writes down a component that is not used again.
pub(super) fn put_aside(status: &mut SchemaPluginStatus, digest: String) {
    if !status.quarantined.contains(&digest) {
        status.quarantined.push(digest);
        let surplus = status.quarantined.len().saturating_sub(MOST_QUARANTINED);
        status.quarantined.drain(..surplus);
    }
}

/// Writes a version into the status that waits to take over.
fn await_turn(status: &mut SchemaPluginStatus, mut newest: LoadedPlugin) {
    keep_time(&mut newest, status.candidate.as_ref());
    status.candidate = Some(newest);
}

/// Writes a version that is in use from now on into the status.
fn record(status: &mut SchemaPluginStatus, mut newest: LoadedPlugin) {
    status.candidate = None;
    let current = status.current.take();
    keep_time(&mut newest, current.as_ref());
    if let Some(current) = current.filter(|one| !is_same(Some(one), &newest)) {
        status.previous = Some(current);
    }
    status.current = Some(newest);
}

/// The same bytes have been in use since they first were.
pub(super) fn keep_time(newest: &mut LoadedPlugin, known: Option<&LoadedPlugin>) {
    if let Some(known) = known.filter(|one| is_same(Some(one), newest)) {
        newest.since = known.since.clone();
    }
}

/// Whether both are the same bytes.
pub(super) fn is_same(known: Option<&LoadedPlugin>, newest: &LoadedPlugin) -> bool {
    known.is_some_and(|known| known.component_digest == newest.component_digest)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn version(digest: &str) -> LoadedPlugin {
        LoadedPlugin {
            reference: "quay.io/acme/x:1".to_owned(),
            component_digest: digest.to_owned(),
            ..LoadedPlugin::default()
        }
    }

    #[test]
    fn a_version_waits_since_it_was_first_seen() {
        let mut status = SchemaPluginStatus::default();
        let seen = |digest: &str, second| LoadedPlugin {
            since: Timestamp::from_second(second).ok().map(Time),
            ..version(digest)
        };
        await_turn(&mut status, seen("sha256:1", 1));
        let first = status.clone();
        await_turn(&mut status, seen("sha256:1", 2));
        assert_eq!(
            status, first,
            "otherwise each look is a change, and asks for another"
        );
        await_turn(&mut status, seen("sha256:2", 3));
        assert_ne!(status, first);
    }

    #[test]
    fn the_version_before_is_remembered_once() {
        let mut status = SchemaPluginStatus::default();
        for digest in ["sha256:1", "sha256:2", "sha256:2"] {
            record(&mut status, version(digest));
        }
        let digest = |one: &Option<LoadedPlugin>| one.clone().map(|one| one.component_digest);
        assert_eq!(digest(&status.current).as_deref(), Some("sha256:2"));
        assert_eq!(digest(&status.previous).as_deref(), Some("sha256:1"));
    }
}

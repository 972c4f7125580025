//! Decides which version of a plugin is in use: the newest, or the previous one if it fails or is rolled
//! back.
//!
//! A version is put into use only after the status that names it was written. Otherwise a status that the
//! API server refuses would leave this replica with a version that nobody else knows.

use jiff::Timestamp;
use kube::ResourceExt;
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::{LoadedPlugin, MAX_QUARANTINED, SchemaPluginStatus, ShadowSummary};
use llsd_plugin::Plugin;
use llsd_registry::{PullError, Reference, SignatureStatus, chain};
use llsd_render::adapter::Adapter;

use super::checked_spec::CheckedSpec;
use super::context::Context;
use super::fetch::{Fetched, Fetcher};
use super::progress::Progress;
use super::restore::load_stored;
use super::rollout::{held_back, unwanted};
use super::shadow::Resources;
use super::status::describe;
use super::stored_component::StoredComponents;
use crate::active_plugins::{ActivePlugins, Slot};
use crate::process::Metrics;

/// One reconciliation of one `SchemaPlugin`.
pub(super) struct Promotion<'a> {
    pub(super) plugins: &'a ActivePlugins,
    pub(super) resource: &'a SchemaPlugin,
    pub(super) spec: &'a CheckedSpec,
    pub(super) fetcher: Fetcher<'a>,
    pub(super) stored: StoredComponents<'a>,
    resources: &'a Resources,
    metrics: &'a Metrics,
    pub(super) now: Timestamp,
}

/// What a reconciliation decided.
pub(super) struct Outcome {
    /// How far the newest version came.
    pub(super) progress: Progress,
    /// The status of its signature.
    pub(super) signature: Option<SignatureStatus>,
    /// Why the version in use is not sufficiently signed.
    pub(super) verification_loss: Option<String>,
    /// The plugins to put into use after the status was written.
    pub(super) promoted: Vec<(Slot, Plugin)>,
}

impl Outcome {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            progress,
            signature: None,
            verification_loss: None,
            promoted: Vec::new(),
        }
    }
}

/// The result of the shadow step.
pub(super) struct ShadowResult {
    /// What the version would change; `None` if it was not compared.
    pub(super) summary: Option<ShadowSummary>,
    /// Why it is not put into use automatically.
    pub(super) held_back: Option<Progress>,
}

impl<'a> Promotion<'a> {
    pub(super) fn new(
        ctx: &'a Context,
        resource: &'a SchemaPlugin,
        spec: &'a CheckedSpec,
        now: Timestamp,
    ) -> Self {
        let options = &ctx.options;
        Self {
            plugins: &ctx.plugins,
            resource,
            spec,
            fetcher: Fetcher {
                client: &options.client,
                registry: options.registries.current(),
                host: &options.host,
                namespace: &options.namespace,
            },
            stored: StoredComponents::new(&options.client, &options.namespace, resource),
            resources: &options.resources,
            metrics: &options.metrics,
            now,
        }
    }

    /// Decides about the newest version of the plugin that the `SchemaPlugin` names. `None` if there is
    /// nothing to do, or if the operator is shutting down.
    pub(super) async fn promote_named(
        &self,
        reference: &Reference,
        status: &mut SchemaPluginStatus,
    ) -> Option<Outcome> {
        let slot = self.slot(None);
        self.plugins
            .set
            .retain_slots(&slot.schema_plugin, std::slice::from_ref(&slot));
        let is_reverted = self.revert(&slot, status).await;
        if let Some(outcome) = self.roll_back(&slot, status).await {
            return Some(outcome);
        }
        self.restore(&slot, status.current.as_ref()).await;
        let in_use = self.in_use(&slot, status);
        let is_verified = status
            .current
            .as_ref()
            .is_some_and(|one| self.spec.verification_loss(one).is_none());
        if !is_reverted
            && is_verified
            && is_pinned_in_use(reference, status.current.as_ref(), &in_use)
        {
            return None;
        }
        let mut outcome = self
            .promote_newest(&slot, reference, in_use, status)
            .await?;
        self.check_verification(&slot, status, &mut outcome).await;
        Some(outcome)
    }

    async fn promote_newest(
        &self,
        slot: &Slot,
        reference: &Reference,
        in_use: Option<Plugin>,
        status: &mut SchemaPluginStatus,
    ) -> Option<Outcome> {
        let fetched = match self.fetch(reference, in_use).await {
            Ok(fetched) => fetched,
            Err(error) => return Some(Outcome::new(Progress::Failed(error))),
        };
        let newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
        let signature = Some(fetched.pulled.signature_status.clone());
        let held = |progress| Outcome {
            signature: signature.clone(),
            ..Outcome::new(progress)
        };
        if !is_same(status.current.as_ref(), &newest) {
            let rollout = self.resource.spec.rollout.as_ref();
            if let Some(reason) = unwanted(rollout, status.current.as_ref(), &newest) {
                set_candidate(status, newest);
                return Some(held(reason));
            }
            let ShadowResult { summary, held_back } = self.shadow(slot, &fetched.plugin).await?;
            status.shadow = summary.or(status.shadow.take());
            if let Some(reason) = held_back {
                set_candidate(status, newest);
                return Some(held(reason));
            }
        }
        let promoted = self.promote(slot.clone(), &fetched).await;
        set_current(status, newest);
        Some(Outcome {
            promoted: promoted.into_iter().collect(),
            ..held(Progress::InUse)
        })
    }

    /// Replaces a quarantined version by the previous one. Returns whether it did.
    async fn revert(&self, slot: &Slot, status: &mut SchemaPluginStatus) -> bool {
        let Some(bad) = status.current.take_if(|one| self.is_quarantined(one)) else {
            return false;
        };
        add_quarantined(status, bad.component_digest);
        self.plugins.set.remove(slot);
        let previous = status.previous.take();
        if let Some(previous) = previous.filter(|one| !self.is_quarantined(one)) {
            self.restore(slot, Some(&previous)).await;
            if self.plugins.set.at(slot).is_some() {
                status.current = Some(previous);
            }
        }
        true
    }

    /// Fills an empty slot with the component that is stored in the cluster.
    pub(super) async fn restore(&self, slot: &Slot, known: Option<&LoadedPlugin>) {
        let Some(known) = known.filter(|_| self.plugins.set.at(slot).is_none()) else {
            return;
        };
        if let Ok(plugin) =
            load_stored(self.fetcher.host, &self.stored, known, &self.spec.grant).await
        {
            self.plugins.set.put(slot.clone(), plugin);
        }
    }

    /// Fetches and loads the newest version: every step except shadow.
    pub(super) async fn fetch(
        &self,
        reference: &Reference,
        in_use: Option<Plugin>,
    ) -> Result<Fetched, PullError> {
        let fetched = self.fetcher.fetch(reference, self.spec, in_use).await;
        let outcome = fetched
            .as_ref()
            .map_or_else(PullError::reason, |_| "Succeeded");
        self.metrics.count_plugin_fetch(outcome);
        fetched
    }

    /// Stores the component of a version in the cluster. Returns what to put into use after the status was
    /// written; `None` if it is in use already.
    pub(super) async fn promote(&self, slot: Slot, fetched: &Fetched) -> Option<(Slot, Plugin)> {
        let Fetched {
            pulled,
            plugin,
            is_in_use,
        } = fetched;
        // If this fails, the next start needs the registry, and uses the built-in plugins until then.
        if let Err(error) = self.stored.store(&pulled.bytes).await {
            let (digest, error) = (&pulled.layer_digest, chain(&error));
            tracing::warn!(%digest, %error, "failed to store the plugin in the cluster");
        }
        (!is_in_use).then(|| (slot, plugin.clone()))
    }

    /// The shadow step: compares the configurations of all resources with and without a version, and
    /// applies the rollout policy. `None` if the operator is shutting down.
    pub(super) async fn shadow(&self, slot: &Slot, plugin: &Plugin) -> Option<ShadowResult> {
        let digest = plugin.digest();
        if self.plugins.faults.is_quarantined(digest) {
            return Some(ShadowResult {
                summary: None,
                held_back: Some(Progress::quarantined(digest)),
            });
        }
        let set = &self.plugins.set;
        let (current, with_plugin) = (set.current(), set.with(slot, plugin));
        let comparison = self.resources.compare(&current, &with_plugin).await?;
        let held_back = held_back(self.resource.spec.rollout.as_ref(), digest, &comparison);
        Some(ShadowResult {
            summary: Some(comparison.summary),
            held_back,
        })
    }

    /// The plugin in a slot, unless the spec changed since: new limits or keys require all steps
    /// again.
    pub(super) fn in_use(&self, slot: &Slot, status: &SchemaPluginStatus) -> Option<Plugin> {
        let is_observed = status.observed_generation == self.resource.metadata.generation;
        self.plugins.set.at(slot).filter(|_| is_observed)
    }

    pub(super) fn is_quarantined(&self, plugin: &LoadedPlugin) -> bool {
        self.plugins.faults.is_quarantined(&plugin.component_digest)
    }

    pub(super) fn slot(&self, proposed: Option<String>) -> Slot {
        Slot {
            schema_plugin: self.resource.name_any(),
            proposed,
        }
    }
}

/// Deletes the stored components that the status does not name. The status must have been written.
pub(super) async fn delete_unused(stored: &StoredComponents<'_>, status: &SchemaPluginStatus) {
    let proposed = status.proposals.iter().map(|one| &one.plugin);
    let all = [&status.current, &status.previous]
        .into_iter()
        .chain(proposed);
    let used = all
        .flatten()
        .filter_map(|one| one.component_digest.parse().ok())
        .collect::<Vec<_>>();
    if let Err(error) = stored.retain(&used).await {
        tracing::warn!(
            error = chain(&error),
            "failed to delete unused stored components"
        );
    }
}

/// Whether a reference with a digest is already in use, so that no request is needed.
pub(super) fn is_pinned_in_use(
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

/// Adds a quarantined component to the status.
pub(super) fn add_quarantined(status: &mut SchemaPluginStatus, digest: String) {
    if !status.quarantined.contains(&digest) {
        status.quarantined.push(digest);
        let surplus = status.quarantined.len().saturating_sub(MAX_QUARANTINED);
        status.quarantined.drain(..surplus);
    }
}

/// Sets the version that is held back in the status.
fn set_candidate(status: &mut SchemaPluginStatus, mut newest: LoadedPlugin) {
    keep_since(&mut newest, status.candidate.as_ref());
    status.candidate = Some(newest);
}

/// Sets the version in use in the status.
fn set_current(status: &mut SchemaPluginStatus, mut newest: LoadedPlugin) {
    status.candidate = None;
    let current = status.current.take();
    keep_since(&mut newest, current.as_ref());
    if let Some(current) = current.filter(|one| !is_same(Some(one), &newest)) {
        status.previous = Some(current);
    }
    status.current = Some(newest);
}

/// Keeps the time of an unchanged component.
pub(super) fn keep_since(newest: &mut LoadedPlugin, known: Option<&LoadedPlugin>) {
    if let Some(known) = known.filter(|one| is_same(Some(one), newest)) {
        newest.since = known.since.clone();
    }
}

/// Whether both versions have the same component.
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
    fn a_candidate_keeps_the_time_when_it_was_first_seen() {
        let mut status = SchemaPluginStatus::default();
        let candidate = |digest: &str, second| LoadedPlugin {
            since: Timestamp::from_second(second).ok().map(Time),
            ..version(digest)
        };
        set_candidate(&mut status, candidate("sha256:1", 1));
        let first = status.clone();
        set_candidate(&mut status, candidate("sha256:1", 2));
        assert_eq!(
            status, first,
            "otherwise each reconciliation would change the status and trigger another"
        );
        set_candidate(&mut status, candidate("sha256:2", 3));
        assert_ne!(status, first);
    }

    #[test]
    fn the_previous_version_is_recorded_once() {
        let mut status = SchemaPluginStatus::default();
        for digest in ["sha256:1", "sha256:2", "sha256:2"] {
            set_current(&mut status, version(digest));
        }
        let digest = |one: &Option<LoadedPlugin>| one.clone().map(|one| one.component_digest);
        assert_eq!(digest(&status.current).as_deref(), Some("sha256:2"));
        assert_eq!(digest(&status.previous).as_deref(), Some("sha256:1"));
    }
}

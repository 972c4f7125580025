//! How one version of a plugin takes the place of another, and gives it back.

use jiff::Timestamp;
use kube::ResourceExt;
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::{LoadedPlugin, Proposal, Rollout, RolloutMode, SchemaPluginStatus};
use llsd_plugin::Plugin;
use llsd_registry::{Denied, Policy, PullError, Reference, Verdict, chain};
use llsd_render::adapter::Adapter;

use super::Plugins;
use super::adopt::load_kept;
use super::controller::Context;
use super::fetch::{Fetched, Fetcher};
use super::kept::Kept;
use super::set::Place;
use super::status::{Progress, describe};
use super::terms::Terms;

/// As many as the status has room for.
const MOST_PROPOSALS: usize = 64;
const MOST_QUARANTINED: usize = 16;

/// What one pass works with.
pub(super) struct Pass<'a> {
    plugins: &'a Plugins,
    resource: &'a SchemaPlugin,
    terms: &'a Terms,
    fetcher: Fetcher<'a>,
    kept: Kept<'a>,
    now: Timestamp,
}

/// How far it came, and what was said of the signatures; `None` when there was nothing to do.
pub(super) type Outcome = Option<(Progress, Option<Verdict>)>;

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
        // Another spec may have other limits and keys, so that everything is done anew.
        let is_observed = status.observed_generation == self.resource.metadata.generation;
        let in_use = self.plugins.set.at(&place).filter(|_| is_observed);
        if !is_reverted && is_settled(reference, status.current.as_ref(), &in_use) {
            return None;
        }
        let fetched = match self.fetcher.fetch(reference, self.terms, in_use).await {
            Ok(fetched) => fetched,
            Err(error) => return Some((Progress::Stopped(error), None)),
        };
        let newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
        let verdict = Some(fetched.pulled.verdict.clone());
        let rollout = self.resource.spec.rollout.as_ref();
        if let Some((reason, message)) = self.waits_for(rollout, status, &newest) {
            status.candidate = Some(newest);
            return Some((Progress::Waits(reason, message), verdict));
        }
        self.promote(place, &fetched).await;
        record(status, newest);
        self.tidy(status).await;
        Some((Progress::InUse, verdict))
    }

    /// What images propose under the prefix of the resource.
    pub(super) async fn proposed(
        &self,
        prefixes: &[Terms],
        status: &mut SchemaPluginStatus,
    ) -> Outcome {
        let policy = Policy {
            rules: prefixes.iter().map(|terms| terms.rule.clone()).collect(),
        };
        let mut wanted = self.plugins.proposals.all();
        for Proposal {
            proposed_by,
            plugin,
            ..
        } in &status.proposals
        {
            if let Some(plugin) = plugin {
                let by = wanted.entry(plugin.reference.clone());
                by.or_insert_with(|| proposed_by.clone());
            }
        }
        let mut proposals = Vec::new();
        let mut stopped = None;
        for (text, proposed_by) in wanted {
            let Ok(reference) = text.parse::<Reference>() else {
                continue;
            };
            if proposals.len() == MOST_PROPOSALS || !self.decides(&policy, &reference) {
                continue;
            }
            let mut known = status
                .proposals
                .iter()
                .filter_map(|one| one.plugin.as_ref());
            let known = known.find(|one| one.reference == reference.to_string());
            let (plugin, error) = self.follow(&reference, known).await;
            proposals.push(Proposal {
                proposed_by,
                plugin,
                problem: error.as_ref().map(|error| chain(error)),
            });
            stopped = stopped.or(error);
        }
        let places = proposals.iter().filter_map(|one| one.plugin.as_ref());
        let places: Vec<_> = places
            .map(|one| self.place(Some(one.reference.clone())))
            .collect();
        self.plugins.set.retain(&self.resource.name_any(), &places);
        status.proposals = proposals;
        self.tidy(status).await;
        Some(match stopped {
            Some(error) => (Progress::Stopped(error), None),
            None => (Progress::InUse, None),
        })
    }

    /// One proposal: the plugin that is in use for it from now on, and why not the newest.
    async fn follow(
        &self,
        reference: &Reference,
        known: Option<&LoadedPlugin>,
    ) -> (Option<LoadedPlugin>, Option<PullError>) {
        let place = self.place(Some(reference.to_string()));
        if let Some(known) = known.filter(|one| self.is_quarantined(one)) {
            self.plugins.set.remove(&place);
            return (Some(known.clone()), None);
        }
        self.restore(&place, known).await;
        let in_use = self.plugins.set.at(&place);
        if is_settled(reference, known, &in_use) {
            return (known.cloned(), None);
        }
        match self.fetcher.fetch(reference, self.terms, in_use).await {
            Ok(fetched) => {
                let mut newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
                if !self.is_quarantined(&newest) {
                    self.promote(place, &fetched).await;
                }
                keep_time(&mut newest, known);
                (Some(newest), None)
            }
            Err(error) => (known.cloned(), Some(error)),
        }
    }

    /// Whether the prefix of this resource is the longest that a proposal lies under.
    fn decides(&self, policy: &Policy, reference: &Reference) -> bool {
        let ours = &self.terms.rule.prefix;
        match policy.admit(reference) {
            Ok(rule) => rule.prefix == *ours,
            Err(Denied::DigestWanted { prefix }) => prefix == *ours,
            Err(Denied::NoRule { .. } | Denied::TooLarge { .. }) => false,
        }
    }

    /// Gives a place back to the version before, when the current one failed too often.
    async fn revert(&self, place: &Place, status: &mut SchemaPluginStatus) -> bool {
        let Some(bad) = status.current.take_if(|one| self.is_quarantined(one)) else {
            return false;
        };
        if !status.quarantined.contains(&bad.component_digest) {
            status.quarantined.push(bad.component_digest);
            let surplus = status.quarantined.len().saturating_sub(MOST_QUARANTINED);
            status.quarantined.drain(..surplus);
        }
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
    async fn restore(&self, place: &Place, known: Option<&LoadedPlugin>) {
        let Some(known) = known.filter(|_| self.plugins.set.at(place).is_none()) else {
            return;
        };
        if let Ok(plugin) = load_kept(self.fetcher.host, &self.kept, known, self.terms).await {
            self.plugins.set.put(place.clone(), plugin);
        }
    }

    /// Puts a version into use, and its bytes into the cluster.
    async fn promote(&self, place: Place, fetched: &Fetched) {
        let Fetched {
            pulled,
            plugin,
            is_in_use,
        } = fetched;
        if !is_in_use {
            self.plugins.set.put(place, plugin.clone());
        }
        // Without them the next start needs the registry, and nothing else is lost.
        if let Err(error) = self.kept.put(&pulled.bytes).await {
            let (digest, error) = (&pulled.layer_digest, chain(&error));
            tracing::warn!(%digest, %error, "the plugin is not kept in the cluster");
        }
    }

    /// Deletes the bytes of versions that nobody can return to.
    async fn tidy(&self, status: &SchemaPluginStatus) {
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

    /// Why a version that went through every step is not put into use by itself.
    fn waits_for(
        &self,
        rollout: Option<&Rollout>,
        status: &SchemaPluginStatus,
        newest: &LoadedPlugin,
    ) -> Option<(&'static str, String)> {
        let digest = &newest.component_digest;
        if self.is_quarantined(newest) {
            let message = format!("{digest} failed too often and is not used again");
            return Some(("Quarantined", message));
        }
        waits_for(rollout, status.current.as_ref(), digest)
    }

    fn is_quarantined(&self, plugin: &LoadedPlugin) -> bool {
        self.plugins.faults.is_quarantined(&plugin.component_digest)
    }

    fn place(&self, proposed: Option<String>) -> Place {
        Place {
            resource: self.resource.name_any(),
            proposed,
        }
    }
}

/// Whether a pinned reference is in use already, so that nobody has to be asked.
fn is_settled(
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

/// What an installer's rollout says about a version. Whoever approved it has seen it.
fn waits_for(
    rollout: Option<&Rollout>,
    current: Option<&LoadedPlugin>,
    digest: &str,
) -> Option<(&'static str, String)> {
    let Rollout {
        mode,
        max_diff,
        approved_digest,
    } = rollout?;
    let is_current = current.is_some_and(|current| current.component_digest == digest);
    let is_approved = approved_digest.as_deref() == Some(digest);
    let approve = || format!("set spec.rollout.approvedDigest to {digest} to let it take over");
    match mode.unwrap_or_default() {
        _ if is_current => None,
        RolloutMode::Shadow => Some((
            "ShadowOnly",
            "spec.rollout.mode is shadow: it never takes over".to_owned(),
        )),
        _ if is_approved => None,
        RolloutMode::Manual => Some(("AwaitingApproval", approve())),
        // What a version would change is not counted, so a limit on it is a wish to be asked.
        RolloutMode::Auto if max_diff.is_some() && current.is_some() => {
            Some(("AwaitingApproval", approve()))
        }
        RolloutMode::Auto => None,
    }
}

/// Writes a version that is in use from now on into the status.
fn record(status: &mut SchemaPluginStatus, mut newest: LoadedPlugin) {
    status.candidate = None;
    let current = status.current.take();
    keep_time(&mut newest, current.as_ref());
    if let Some(current) = current.filter(|one| one.component_digest != newest.component_digest) {
        status.previous = Some(current);
    }
    status.current = Some(newest);
}

/// The same bytes have been in use since they first were.
fn keep_time(newest: &mut LoadedPlugin, known: Option<&LoadedPlugin>) {
    if let Some(known) = known.filter(|one| one.component_digest == newest.component_digest) {
        newest.since = known.since.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(digest: &str) -> LoadedPlugin {
        LoadedPlugin {
            reference: "quay.io/acme/x:1".to_owned(),
            component_digest: digest.to_owned(),
            ..LoadedPlugin::default()
        }
    }

    fn rollout(mode: RolloutMode, max_diff: Option<i32>, approved: Option<&str>) -> Rollout {
        Rollout {
            mode: Some(mode),
            max_diff,
            approved_digest: approved.map(str::to_owned),
        }
    }

    #[test]
    fn a_version_takes_over_by_itself_unless_the_rollout_wants_to_be_asked() {
        let (old, no) = (version("sha256:1"), None);
        let decide = |rollout: Option<Rollout>, current: Option<&LoadedPlugin>| {
            waits_for(rollout.as_ref(), current, "sha256:2").map(|(reason, _)| reason)
        };
        assert_eq!(decide(None, Some(&old)), None);
        let auto = |limit, approved| Some(rollout(RolloutMode::Auto, limit, approved));
        assert_eq!(decide(auto(None, None), Some(&old)), None);
        assert_eq!(decide(auto(Some(0), None), no), None);
        assert_eq!(
            decide(auto(Some(0), None), Some(&old)),
            Some("AwaitingApproval")
        );
        assert_eq!(decide(auto(Some(0), Some("sha256:2")), Some(&old)), None);
        let manual = |approved| Some(rollout(RolloutMode::Manual, None, approved));
        assert_eq!(decide(manual(None), no), Some("AwaitingApproval"));
        assert_eq!(decide(manual(Some("sha256:2")), no), None);
        assert_eq!(
            decide(manual(None), Some(&version("sha256:2"))),
            None,
            "what is in use needs no approval"
        );
        let shadow = Some(rollout(RolloutMode::Shadow, None, Some("sha256:2")));
        assert_eq!(decide(shadow, Some(&old)), Some("ShadowOnly"));
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

//! What images propose under the prefix of a `SchemaPlugin`: each goes the way of a plugin that is
//! named, in a place of its own.

use std::collections::BTreeMap;

use kube::ResourceExt;
use llsd_api::schema_plugin::{LoadedPlugin, Proposal, SchemaPluginStatus};
use llsd_registry::{Denied, Policy, Reference, chain};

use super::status::{Progress, describe};
use super::take_over::{Outcome, Pass, is_same, is_settled, keep_time, put_aside};
use super::terms::Terms;

/// As many as the status has room for.
const MOST_PROPOSALS: usize = 64;

impl Pass<'_> {
    /// What images propose under the prefix of the resource. `prefixes` are those of all of them.
    pub(super) async fn proposed(
        &self,
        prefixes: &[Terms],
        status: &mut SchemaPluginStatus,
    ) -> Outcome {
        let policy = Policy {
            rules: prefixes.iter().map(|terms| terms.rule.clone()).collect(),
        };
        let mut wanted = self.plugins.proposals.all();
        let mut known = Vec::new();
        for Proposal {
            proposed_by,
            plugin,
            ..
        } in status.proposals.clone()
        {
            let Some(plugin) = plugin else { continue };
            let by = wanted.entry(plugin.reference.clone());
            by.or_insert(proposed_by);
            if self.is_quarantined(&plugin) {
                self.plugins.set.remove(&self.place(Some(plugin.reference)));
                put_aside(status, plugin.component_digest);
            } else {
                known.push(plugin);
            }
        }
        let mut proposals = Vec::new();
        let mut worst = Progress::InUse;
        for (text, proposed_by) in by_turn(wanted, &known) {
            let Ok(reference) = text.parse::<Reference>() else {
                continue;
            };
            if proposals.len() == MOST_PROPOSALS || !self.decides(&policy, &reference) {
                continue;
            }
            let known = known
                .iter()
                .find(|one| one.reference == reference.to_string());
            let (plugin, progress) = self.follow(&reference, known, status).await?;
            proposals.push(Proposal {
                proposed_by,
                plugin,
                problem: problem(&reference, &progress),
            });
            if matches!(worst, Progress::InUse) {
                worst = progress;
            }
        }
        let places = proposals.iter().filter_map(|one| one.plugin.as_ref());
        let places: Vec<_> = places
            .map(|one| self.place(Some(one.reference.clone())))
            .collect();
        self.plugins.set.retain(&self.resource.name_any(), &places);
        status.proposals = proposals;
        self.tidy(status).await;
        Some((worst, None))
    }

    /// One proposal: the plugin that is in use for it from now on, and how far the newest came.
    /// `None`: the operator ends.
    async fn follow(
        &self,
        reference: &Reference,
        known: Option<&LoadedPlugin>,
        status: &SchemaPluginStatus,
    ) -> Option<(Option<LoadedPlugin>, Progress)> {
        let place = self.place(Some(reference.to_string()));
        self.restore(&place, known).await;
        let in_use = self.in_use(&place, status);
        if is_settled(reference, known, &in_use) {
            return Some((known.cloned(), Progress::InUse));
        }
        let fetched = match self.fetch(reference, in_use).await {
            Ok(fetched) => fetched,
            Err(error) => return Some((known.cloned(), Progress::Stopped(error))),
        };
        let mut newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
        if !is_same(known, &newest) {
            let trial = self.try_out(&place, &fetched.plugin).await?;
            if let Some(waits) = trial.held_back {
                return Some((known.cloned(), waits));
            }
        }
        self.promote(place, &fetched).await;
        keep_time(&mut newest, known);
        Some((Some(newest), Progress::InUse))
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
}

/// Those in use come first: there is room for so many, and they make no way for wishes.
fn by_turn(wanted: BTreeMap<String, String>, in_use: &[LoadedPlugin]) -> Vec<(String, String)> {
    let mut all: Vec<_> = wanted.into_iter().collect();
    all.sort_by_key(|(text, _)| !in_use.iter().any(|one| one.reference == *text));
    all
}

/// Why the newest version of a proposal is not in use.
fn problem(reference: &Reference, progress: &Progress) -> Option<String> {
    match progress {
        Progress::InUse => None,
        Progress::Waits(_, message) | Progress::Refused(message) => {
            Some(format!("plugin {reference}: {message}"))
        }
        Progress::Stopped(error) => Some(chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_do_not_displace_what_is_in_use() {
        let wanted = ["a/1", "b/1", "c/1"].map(|text| (text.to_owned(), String::new()));
        let in_use = LoadedPlugin {
            reference: "c/1".to_owned(),
            ..LoadedPlugin::default()
        };
        let turns = by_turn(wanted.into(), &[in_use]).into_iter();
        let turns: Vec<String> = turns.map(|(text, _)| text).collect();
        assert_eq!(turns, ["c/1", "a/1", "b/1"]);
    }
}

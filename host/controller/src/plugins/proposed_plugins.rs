//! Puts the plugins that images propose into use, each in a slot of its own.

use std::collections::BTreeMap;

use kube::ResourceExt;
use llsd_api::schema_plugin::{
    LoadedPlugin, MAX_PROPOSALS, MAX_TEXT_BYTES, Proposal, SchemaPluginStatus, VerificationLoss,
};
use llsd_plugin::Plugin;
use llsd_registry::{Denied, Policy, Reference, chain};

use super::checked_spec::CheckedSpec;
use super::progress::Progress;
use super::promotion::{
    Outcome, Promotion, add_quarantined, is_pinned_in_use, is_same, keep_since,
};
use super::rollout::unwanted;
use super::status::describe;
use crate::active_plugins::Slot;

impl Promotion<'_> {
    /// Puts the plugins that images propose under the prefix of this `SchemaPlugin` into use. `specs`
    /// are those of all `SchemaPlugin`s with a prefix.
    pub(super) async fn promote_proposed(
        &self,
        specs: &[CheckedSpec],
        status: &mut SchemaPluginStatus,
    ) -> Option<Outcome> {
        let policy = Policy {
            rules: specs.iter().map(|spec| spec.rule.clone()).collect(),
        };
        let mut proposed = self.plugins.proposals.all();
        let mut known = Vec::new();
        for Proposal {
            proposed_by,
            plugin,
            ..
        } in status.proposals.clone()
        {
            let Some(plugin) = plugin else { continue };
            let image = proposed.entry(plugin.reference.clone());
            image.or_insert(proposed_by);
            if self.is_quarantined(&plugin) {
                self.plugins.set.remove(&self.slot(Some(plugin.reference)));
                add_quarantined(status, plugin.component_digest);
            } else {
                known.push(plugin);
            }
        }
        let mut proposals = Vec::new();
        let mut worst = Progress::InUse;
        let mut promoted = Vec::new();
        for (text, proposed_by) in in_use_first(proposed, &known) {
            let Ok(reference) = text.parse::<Reference>() else {
                continue;
            };
            if proposals.len() == MAX_PROPOSALS || !self.is_responsible(&policy, &reference) {
                continue;
            }
            let known = known
                .iter()
                .find(|one| one.reference == reference.to_string());
            let DecidedProposal {
                plugin,
                progress,
                put,
            } = self.decide_proposal(&reference, known, status).await?;
            promoted.extend(put);
            proposals.push(Proposal {
                proposed_by: truncated(proposed_by),
                plugin,
                problem: problem(&reference, &progress).map(truncated),
            });
            if matches!(worst, Progress::InUse) {
                worst = progress;
            }
        }
        let slots = proposals.iter().filter_map(|one| one.plugin.as_ref());
        let slots: Vec<_> = slots
            .map(|one| self.slot(Some(one.reference.clone())))
            .collect();
        self.plugins
            .set
            .retain_slots(&self.resource.name_any(), &slots);
        status.proposals = proposals;
        Some(Outcome {
            promoted,
            ..Outcome::new(worst)
        })
    }

    /// Decides about the newest version of one proposal. `None` if the operator is shutting down.
    async fn decide_proposal(
        &self,
        reference: &Reference,
        known: Option<&LoadedPlugin>,
        status: &SchemaPluginStatus,
    ) -> Option<DecidedProposal> {
        let slot = self.slot(Some(reference.to_string()));
        let loss = known.and_then(|one| self.spec.verification_loss(one));
        let is_kept = self.spec.on_verification_loss == VerificationLoss::Keep;
        self.restore(&slot, known.filter(|_| loss.is_none() || is_kept))
            .await;
        let in_use = self.in_use(&slot, status);
        let stays = |progress| DecidedProposal {
            // A version that lost its verification is dropped if the spec says so.
            plugin: known.filter(|_| loss.is_none() || is_kept).cloned(),
            progress,
            put: None,
        };
        if loss.is_none() && is_pinned_in_use(reference, known, &in_use) {
            return Some(stays(Progress::InUse));
        }
        let fetched = match self.fetch(reference, in_use).await {
            Ok(fetched) => fetched,
            Err(error) => return Some(stays(Progress::Failed(error))),
        };
        let mut newest = describe(reference, &fetched.pulled, &fetched.plugin, self.now);
        if !is_same(known, &newest) {
            let rollout = self.resource.spec.rollout.as_ref();
            if let Some(reason) = unwanted(rollout, known, &newest) {
                return Some(stays(reason));
            }
            let result = self.shadow(&slot, &fetched.plugin).await?;
            if let Some(reason) = result.held_back {
                return Some(stays(reason));
            }
        }
        let put = self.promote(slot, &fetched).await;
        keep_since(&mut newest, known);
        Some(DecidedProposal {
            plugin: Some(newest),
            progress: Progress::InUse,
            put,
        })
    }

    /// Whether the prefix of this `SchemaPlugin` is the longest one that matches a proposal.
    fn is_responsible(&self, policy: &Policy, reference: &Reference) -> bool {
        let ours = &self.spec.rule.prefix;
        match policy.admit(reference) {
            Ok(rule) => rule.prefix == *ours,
            Err(Denied::DigestRequired { prefix }) => prefix == *ours,
            Err(Denied::NoRule { .. } | Denied::TooLarge { .. }) => false,
        }
    }
}

/// What was decided about a proposal.
struct DecidedProposal {
    /// The version in use.
    plugin: Option<LoadedPlugin>,
    /// How far the newest version came.
    progress: Progress,
    /// What to put into use after the status was written.
    put: Option<(Slot, Plugin)>,
}

/// A string that fits into the status.
fn truncated(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

/// Sorts the proposals in use first, so that new proposals do not displace them.
fn in_use_first(
    proposed: BTreeMap<String, String>,
    in_use: &[LoadedPlugin],
) -> Vec<(String, String)> {
    let mut all: Vec<_> = proposed.into_iter().collect();
    all.sort_by_key(|(text, _)| !in_use.iter().any(|one| one.reference == *text));
    all
}

/// Why the newest version of a proposal is not in use.
fn problem(reference: &Reference, progress: &Progress) -> Option<String> {
    match progress {
        Progress::InUse => None,
        Progress::Held(_, message) | Progress::InvalidSpec(message) => {
            Some(format!("plugin {reference}: {message}"))
        }
        Progress::Failed(error) => Some(chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_proposals_do_not_displace_those_in_use() {
        let proposed = ["a/1", "b/1", "c/1"].map(|text| (text.to_owned(), String::new()));
        let in_use = LoadedPlugin {
            reference: "c/1".to_owned(),
            ..LoadedPlugin::default()
        };
        let sorted = in_use_first(proposed.into(), &[in_use]).into_iter();
        let sorted: Vec<String> = sorted.map(|(text, _)| text).collect();
        assert_eq!(sorted, ["c/1", "a/1", "b/1"]);
    }
}

//! How far rollouts are, computed from the marks of all resources and from who waits.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Resource, Targets};
use crate::reconcile::revisions::{Mark, MarkState};

/// Resources in the report that are updated at the moment.
const MAX_NAMES: usize = 16;

/// How far one rollout is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    /// What is rolled out.
    pub(crate) target: String,
    /// For example `12 of 200, 3 unchanged, halted at ns/name`.
    pub(crate) summary: String,
    /// Resources that the rollout concerns.
    pub(crate) total: usize,
    /// Resources whose new pods are available.
    pub(crate) updated: usize,
    /// Resources that have the update and did not need new pods.
    pub(crate) unchanged: usize,
    /// Resources whose new pods are not available yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) in_progress: Vec<String>,
    /// The resource that halts the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halted_at: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl Progress {
    /// For example `12 of 200, 3 unchanged, halted at ns/name`.
    pub(super) fn summary(&self) -> String {
        let done = self.updated + self.unchanged;
        let mut summary = format!("{done} of {}", self.total);
        if self.unchanged > 0 {
            summary.push_str(&format!(", {} unchanged", self.unchanged));
        }
        if let Some(resource) = &self.halted_at {
            summary.push_str(&format!(", halted at {resource}"));
        }
        summary
    }
}

/// The halted rollouts, each with a target that failed. Several targets of one rollout can have failed,
/// each for another resource.
pub(super) fn halted(marks: &BTreeMap<Resource, Mark>) -> BTreeSet<(&String, &String)> {
    let failed = marks
        .values()
        .filter(|mark| mark.state == MarkState::RolledBack);
    failed.flat_map(|mark| &mark.targets).collect()
}

/// The progress of each rollout. Its target is the one that resources wait for, or else the last one.
pub(super) fn of<'a>(
    marks: &BTreeMap<Resource, Mark>,
    waiting: impl Iterator<Item = (&'a Resource, &'a Targets)>,
) -> BTreeMap<String, Progress> {
    let mut all: BTreeMap<String, Progress> = BTreeMap::new();
    for (resource, targets) in waiting {
        for (rollout, target) in targets {
            let progress = all.entry(rollout.clone()).or_default();
            progress.target.clone_from(target);
            // A resource that is set back waits, too, but is counted by its mark.
            let mark = marks.get(resource);
            if mark.is_none_or(|mark| mark.targets.get(rollout) != Some(target)) {
                progress.total += 1;
            }
        }
    }
    for (resource, mark) in marks {
        for (rollout, target) in &mark.targets {
            let progress = all.entry(rollout.clone()).or_default();
            if progress.target.is_empty() {
                progress.target.clone_from(target);
            }
            if progress.target == *target {
                progress.count(resource, mark);
            }
        }
    }
    for progress in all.values_mut() {
        progress.summary = progress.summary();
    }
    all
}

impl Progress {
    fn count(&mut self, (namespace, name): &Resource, mark: &Mark) {
        let resource = format!("{namespace}/{name}");
        self.total += 1;
        match mark.state {
            MarkState::Updated => self.updated += 1,
            MarkState::Unchanged => self.unchanged += 1,
            MarkState::Progressing if self.in_progress.len() < MAX_NAMES => {
                self.in_progress.push(resource);
            }
            MarkState::Progressing => {}
            MarkState::RolledBack => {
                self.halted_at = Some(resource);
                self.message.clone_from(&mark.message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_updated_and_unchanged_resources_and_names_the_one_that_failed() {
        let targets: Targets = [("operator".to_owned(), "2".to_owned())].into();
        let resource = |name: &str| ("ns".to_owned(), name.to_owned());
        let mark = |state| Mark {
            targets: targets.clone(),
            state,
            message: "no pods".to_owned(),
        };
        let marks = BTreeMap::from([
            (resource("a"), mark(MarkState::Updated)),
            (resource("b"), mark(MarkState::Unchanged)),
            (resource("c"), mark(MarkState::RolledBack)),
        ]);
        let (d, c) = (resource("d"), resource("c"));
        let waiting = [(&c, &targets), (&d, &targets)];
        let progress = of(&marks, waiting.into_iter());
        let operator = &progress["operator"];
        assert_eq!(operator.summary, "2 of 4, 1 unchanged, halted at ns/c");
        assert_eq!(operator.message, "no pods");
    }
}

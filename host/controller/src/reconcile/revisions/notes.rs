//! The annotations of a revision: what its author was answered, and its part in a rollout.
//!
//! Unlike the data of a revision, they can change.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use llsd_api::labels;
use serde::{Deserialize, Serialize};

/// The annotations of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// The last values of the annotations [`labels::UPDATE`] and [`labels::UNDO`] of the resource that
    /// were answered.
    pub(crate) update: Option<String>,
    pub(crate) undo: Option<String>,
    /// The rollout that created the revision.
    pub(crate) rollout: Option<Mark>,
}

/// The part of one resource in a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mark {
    /// What is rolled out: for each rollout its target.
    pub(crate) targets: BTreeMap<String, String>,
    pub(crate) state: MarkState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

/// How far a resource is in a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MarkState {
    /// Its new pods are not all available yet.
    Progressing,
    /// Its new pods are available.
    Updated,
    /// Its pods did not have to change.
    Unchanged,
    /// Its new pods did not become available, and it has its previous resolution again.
    RolledBack,
}

impl Notes {
    pub(crate) fn of(head: &DynamicObject) -> Self {
        let annotations = head.annotations();
        let rollout = annotations.get(labels::ROLLOUT);
        Self {
            update: annotations.get(labels::UPDATE).cloned(),
            undo: annotations.get(labels::UNDO).cloned(),
            rollout: rollout.and_then(|text| serde_json::from_str(text).ok()),
        }
    }

    /// The requests in the annotations of a resource, as answered.
    pub(crate) fn answering(cr: &impl ResourceExt) -> Self {
        Self {
            update: cr.annotations().get(labels::UPDATE).cloned(),
            undo: cr.annotations().get(labels::UNDO).cloned(),
            rollout: None,
        }
    }

    pub(super) fn annotations(&self) -> BTreeMap<&'static str, String> {
        let Self {
            update,
            undo,
            rollout,
        } = self;
        let rollout = rollout
            .as_ref()
            .and_then(|mark| serde_json::to_string(mark).ok());
        let all = [
            (labels::UPDATE, update.clone()),
            (labels::UNDO, undo.clone()),
            (labels::ROLLOUT, rollout),
        ];
        all.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

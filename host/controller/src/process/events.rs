//! Publishes Kubernetes events.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use llsd_api::escape_lines;
use llsd_api::labels::FIELD_MANAGER;

/// The longest note that the API server accepts.
const MAX_NOTE_BYTES: usize = 1024;
const ACTION: &str = "Reconcile";

/// A change that is published as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// Publishes events.
pub(crate) struct Events(Recorder);

impl Events {
    pub(crate) fn new(client: Client, instance: Option<String>) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: FIELD_MANAGER.to_owned(),
                instance,
            },
        ))
    }

    /// Publishes a single warning.
    pub(crate) async fn warn(&self, reason: &str, note: &str, regarding: &ObjectReference) {
        let warning = Transition {
            is_warning: true,
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        self.publish(vec![warning], regarding).await;
    }

    /// Publishes transitions. A failure is only logged, because the status has the same information.
    pub(crate) async fn publish(&self, transitions: Vec<Transition>, regarding: &ObjectReference) {
        for Transition {
            is_warning,
            reason,
            note,
        } in transitions
        {
            let mut note = escape_lines(&note).into_owned();
            note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES));
            let event = Event {
                type_: if is_warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason,
                note: Some(note),
                action: ACTION.to_owned(),
                secondary: None,
            };
            if let Err(error) = self.0.publish(&event, regarding).await {
                tracing::warn!(%error, reason = event.reason, "failed to publish an event");
            }
        }
    }
}

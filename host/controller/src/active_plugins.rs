//! The plugins in use, shared by the reconciliations and the `SchemaPlugin` controller.
//!
//! Imports nothing from the rest of the crate.

mod faults;
mod image_proposals;
mod set;

use std::sync::Arc;

use futures::Stream;
use llsd_plugin::Plugin;
use tokio::sync::watch;

pub(crate) use faults::Faults;
use image_proposals::ImageProposals;
use set::PluginSet;
pub(crate) use set::Slot;

/// The plugins in use, their faults, and the plugins that images propose.
pub(crate) struct ActivePlugins {
    pub(crate) set: PluginSet,
    /// How plugins end for each author, and which components are quarantined.
    pub(crate) faults: Faults,
    pub(crate) proposals: ImageProposals,
    /// Whether the plugins that were in use before the operator started are in use again.
    is_restored: watch::Sender<bool>,
}

impl ActivePlugins {
    /// Starts with the built-in plugins. `current` receives the set and every change of it.
    pub(crate) fn new(builtin: Vec<Plugin>, current: watch::Sender<Arc<[Plugin]>>) -> Self {
        Self {
            set: PluginSet::new(builtin, current),
            faults: Faults::default(),
            proposals: ImageProposals::default(),
            is_restored: watch::Sender::new(false),
        }
    }

    /// Empties the slots of all `SchemaPlugin`s that do not exist any more, and ends their quarantines.
    pub(crate) fn retain_schema_plugins(&self, exists: impl Fn(&str) -> bool) {
        self.set.retain_schema_plugins(&exists);
        if self.faults.release_deleted(&exists) {
            self.set.announce();
        }
    }

    /// Waits for [`Self::mark_restored`]. A reconciliation with other plugins than before would
    /// generate other configurations for unchanged resources.
    pub(crate) async fn restored(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.is_restored.subscribe().wait_for(|is| *is).await;
    }

    /// Declares that the plugins that were in use before the operator started are in use again.
    pub(crate) fn mark_restored(&self) {
        self.is_restored.send_replace(true);
    }
}

/// A stream that yields each time a value is sent.
pub(crate) fn changes<T: Send + Sync + 'static>(
    receiver: watch::Receiver<T>,
) -> impl Stream<Item = ()> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
}

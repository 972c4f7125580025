//! Plugins from registries: who may be loaded, what is loaded, and what becomes of a bad one.
//!
//! A `SchemaPlugin` names a plugin or lets images propose some. Each goes through the same steps:
//! resolve → admit → authenticate → fetch → verify → inspect → compile → dry-instantiate → shadow, and
//! then takes the place of the version before it, without a restart. A step that fails leaves the version
//! in use where it is. The bytes in use are kept in the cluster, so that a start while the registry
//! is down changes nothing, and so that replicas that wait for the lead can use them as well.

mod adopt;
mod controller;
mod events;
mod faults;
mod fetch;
mod kept;
mod load;
mod proposals;
mod proposed;
mod rollout;
mod set;
mod shadow;
mod status;
mod take_over;
mod terms;

use std::sync::Arc;

use futures::Stream;
use llsd_plugin::Plugin;
use tokio::sync::watch;

pub(crate) use adopt::Adoption;
pub(crate) use controller::{PluginSettings, serve_schema_plugins};
pub(crate) use faults::Faults;
pub use load::load_pulled;
pub(crate) use proposals::Proposals;
pub(crate) use set::PluginSet;
pub(crate) use shadow::Resources;

/// What reconciliations and the controller of `SchemaPlugin`s share.
pub(crate) struct Plugins {
    /// Those in use.
    pub(crate) set: PluginSet,
    /// How they behave.
    pub(crate) faults: Faults,
    /// What images wish for.
    pub(crate) proposals: Proposals,
    /// Whether those that were in use before the operator started are in use again.
    restored: watch::Sender<bool>,
}

impl Plugins {
    /// Starts with what the operator was given, and tells `in_use` of it and of every change.
    pub(crate) fn new(given: Vec<Plugin>, in_use: watch::Sender<Arc<[Plugin]>>) -> Self {
        Self {
            set: PluginSet::new(given, in_use),
            faults: Faults::default(),
            proposals: Proposals::default(),
            restored: watch::Sender::new(false),
        }
    }

    /// Waits until what was in use before the operator started is in use again. Other plugins would
    /// make other configurations of resources that nobody changed.
    pub(crate) async fn restored(&self) {
        // The sender is ours, so that the wait ends by a yes alone.
        let _ = self.restored.subscribe().wait_for(|is| *is).await;
    }
}

/// Fires each time a value is sent.
fn changes<T: Send + Sync + 'static>(
    receiver: watch::Receiver<T>,
) -> impl Stream<Item = ()> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
}

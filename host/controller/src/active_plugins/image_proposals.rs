//! Plugins that images propose by label. A proposal has no effect until a `SchemaPlugin` allows it.

use std::collections::BTreeMap;

use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::changes;

/// Far more than a cluster has distributions. The limit keeps images from filling the memory.
const MAX_PROPOSALS: usize = 256;

/// The proposals since the operator started.
#[derive(Default)]
pub(crate) struct ImageProposals {
    /// By plugin reference: the image that proposes it.
    by_reference: Mutex<BTreeMap<String, String>>,
    changed: watch::Sender<()>,
}

impl ImageProposals {
    /// Records the plugin that an image proposes.
    pub(crate) fn record(&self, image: &str, reference: &str) {
        let mut proposals = self.by_reference.lock();
        if proposals.len() < MAX_PROPOSALS && !proposals.contains_key(reference) {
            proposals.insert(reference.to_owned(), image.to_owned());
            self.changed.send_replace(());
        }
    }

    /// Every proposal: the image, by plugin reference.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.by_reference.lock().clone()
    }

    /// Yields each time a new plugin is proposed.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }
}

//! Plugins that images propose by label. A proposal is only a wish: a `SchemaPlugin` grants it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::Stream;
use tokio::sync::watch;

use super::changes;

/// More than any cluster has distributions; beyond it somebody is filling the list.
const MOST: usize = 256;

/// What was proposed since the start, by reference: the image whose label it was.
#[derive(Default)]
pub(crate) struct Proposals {
    seen: Mutex<BTreeMap<String, String>>,
    changed: watch::Sender<()>,
}

impl Proposals {
    /// Takes note of what an image proposes.
    pub(crate) fn note(&self, image: &str, reference: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < MOST && !seen.contains_key(reference) {
            seen.insert(reference.to_owned(), image.to_owned());
            self.changed.send_replace(());
        }
    }

    /// Every proposal, by reference.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    /// Fires each time something new is proposed.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changed.subscribe())
    }
}

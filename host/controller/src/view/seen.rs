//! What the watches of an operator have seen, for whoever answers beside it.

use std::sync::{Arc, OnceLock};

use llsd_render::objects::Kind;

use super::View;

/// What the watches of an operator have seen. Nothing before it runs; all clones see the same.
#[derive(Clone, Default)]
pub struct Seen(Arc<OnceLock<Arc<View>>>);

impl Seen {
    /// Whether an object is there, as far as was seen. A no is no proof: the object may be newer than
    /// what the watch has told, or of a kind or namespace that the operator does not watch.
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let view = self.0.get();
        view.is_some_and(|view| view.child(kind, namespace, name).is_some())
    }

    /// Sees what the caches hold from now on.
    pub(crate) fn through(&self, view: &Arc<View>) {
        // Settings are used up by one operator, so that no second view comes.
        let _ = self.0.set(view.clone());
    }
}

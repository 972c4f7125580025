//! What the watches of an operator have seen, for whoever answers beside it.

use std::sync::{Arc, OnceLock};

use llsd_render::objects::Kind;

use super::View;
use crate::operator::Scope;

/// What the watches of an operator have seen. Nothing before it runs; all clones see the same.
#[derive(Clone, Default)]
pub struct Seen(Arc<OnceLock<(Scope, Arc<View>)>>);

impl Seen {
    /// Whether an object is there, as far as the watch has told, which may be moments behind. Unknown
    /// for a kind or a namespace that is not watched, and before the first list.
    pub fn has(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
        let (scope, view) = self.0.get()?;
        let cache = view.of(kind)?;
        let is_known = scope.covers(namespace) && cache.is_complete();
        is_known.then(|| cache.get(namespace, name).is_some())
    }

    /// Sees what the caches hold from now on.
    pub(crate) fn through(&self, scope: &Scope, view: &Arc<View>) {
        // Settings are used up by one operator, so that no second view comes.
        let _ = self.0.set((scope.clone(), view.clone()));
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use kube::runtime::watcher::Event;

    use super::*;

    #[test]
    fn what_is_not_watched_is_neither_there_nor_missing() {
        let seen = Seen::default();
        let has = |kind, namespace, name| seen.has(kind, namespace, name);
        assert_eq!(has(Kind::Secret, "n", "a"), None);

        let view = Arc::new(View::new([Kind::Secret]));
        seen.through(&Scope::Namespace("n".to_owned()), &view);
        let secrets = view.of(Kind::Secret).unwrap();
        let secret = DynamicObject::new("a", &Kind::Secret.resource()).within("n");
        secrets.observe(Event::Init);
        secrets.observe(Event::InitApply(secret));
        assert_eq!(has(Kind::Secret, "n", "a"), None, "before the first list");

        secrets.observe(Event::InitDone);
        assert_eq!(has(Kind::Secret, "n", "a"), Some(true));
        assert_eq!(has(Kind::Secret, "n", "b"), Some(false));
        assert_eq!(has(Kind::Secret, "elsewhere", "a"), None);
        assert_eq!(has(Kind::Route, "n", "a"), None);
    }
}

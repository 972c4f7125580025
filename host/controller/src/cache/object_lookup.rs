//! Read access to the caches for other parts of the process, such as the webhook.

use std::sync::{Arc, OnceLock};

use llsd_render::objects::Kind;

use super::{ClusterCache, Scope};

/// Looks up objects in an operator's caches. Knows nothing before the operator runs. All clones use
/// the same caches.
#[derive(Clone, Default)]
pub struct ObjectLookup(Arc<OnceLock<(Scope, Arc<ClusterCache>)>>);

impl ObjectLookup {
    /// Whether an object exists according to the watch, which may lag behind. `None` for a kind or
    /// namespace that is not watched, and before the first list is complete.
    pub fn exists(&self, kind: Kind, namespace: &str, name: &str) -> Option<bool> {
        let (scope, cache) = self.0.get()?;
        let objects = cache.of(kind)?;
        let is_known = scope.covers(namespace) && objects.is_complete();
        is_known.then(|| objects.contains(namespace, name))
    }

    /// Connects the lookup to an operator's caches.
    pub(crate) fn connect(&self, scope: &Scope, cache: &Arc<ClusterCache>) {
        // `run` consumes its options, so a lookup is connected at most once.
        let _ = self.0.set((scope.clone(), cache.clone()));
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use kube::runtime::watcher::Event;

    use super::*;

    #[test]
    fn an_unwatched_object_is_neither_present_nor_absent() {
        let lookup = ObjectLookup::default();
        let exists = |kind, namespace, name| lookup.exists(kind, namespace, name);
        assert_eq!(exists(Kind::Secret, "n", "a"), None);

        let cache = Arc::new(ClusterCache::new([Kind::Secret]));
        lookup.connect(&Scope::Namespace("n".to_owned()), &cache);
        let secrets = cache.of(Kind::Secret).unwrap();
        let secret = DynamicObject::new("a", &Kind::Secret.resource()).within("n");
        secrets.observe(Event::Init);
        secrets.observe(Event::InitApply(secret));
        assert_eq!(
            exists(Kind::Secret, "n", "a"),
            None,
            "before the first list"
        );

        secrets.observe(Event::InitDone);
        assert_eq!(exists(Kind::Secret, "n", "a"), Some(true));
        assert_eq!(exists(Kind::Secret, "n", "b"), Some(false));
        assert_eq!(exists(Kind::Secret, "elsewhere", "a"), None);
        assert_eq!(exists(Kind::Route, "n", "a"), None);
    }
}

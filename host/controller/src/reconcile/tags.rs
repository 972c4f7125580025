//! The digests that the tags in use point to now. A tag that moved changes nothing by itself; it is an
//! update that is available.
//!
//! A tag is learned when a resource is resolved with it, and checked again at a long interval, in the
//! background. Nothing is checked when the operator starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::context::Context;
use super::rollouts::Resource;
use crate::images::Puller;

/// The tags in use.
#[derive(Default)]
pub(crate) struct Tags(Mutex<State>);

#[derive(Default)]
struct State {
    by_image: BTreeMap<String, Tag>,
    by_resource: BTreeMap<Resource, String>,
}

struct Tag {
    /// Who reads the image.
    puller: Puller,
    /// The digest that it points to; `None` until it is read.
    newest: Option<String>,
    users: BTreeSet<Resource>,
}

impl Tags {
    /// Registers the image of a resource.
    pub(crate) fn register(&self, image: &str, puller: &Puller, resource: &Resource) {
        let mut state = self.0.lock();
        if state.by_resource.get(resource).map(String::as_str) == Some(image) {
            return;
        }
        state.forget(resource);
        if image.contains('@') {
            return;
        }
        state.by_resource.insert(resource.clone(), image.to_owned());
        let tag = state
            .by_image
            .entry(image.to_owned())
            .or_insert_with(|| Tag {
                puller: puller.clone(),
                newest: None,
                users: BTreeSet::new(),
            });
        tag.users.insert(resource.clone());
    }

    /// Stores the digest that a tag points to. Returns the resources to reconcile if it moved.
    pub(crate) fn learn(&self, image: &str, digest: &str) -> Vec<Resource> {
        let mut state = self.0.lock();
        match state.by_image.get_mut(image) {
            Some(tag) if tag.newest.as_deref() != Some(digest) => {
                tag.newest = Some(digest.to_owned());
                tag.users.iter().cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The digest that a tag points to, as far as it is known.
    pub(crate) fn newest(&self, image: &str) -> Option<String> {
        self.0.lock().by_image.get(image)?.newest.clone()
    }

    /// Drops a deleted resource.
    pub(crate) fn forget(&self, resource: &Resource) {
        self.0.lock().forget(resource);
    }

    fn all(&self) -> Vec<(String, Puller)> {
        let state = self.0.lock();
        let all = state.by_image.iter();
        all.map(|(image, tag)| (image.clone(), tag.puller.clone()))
            .collect()
    }
}

impl State {
    fn forget(&mut self, resource: &Resource) {
        let Some(image) = self.by_resource.remove(resource) else {
            return;
        };
        if let Some(tag) = self.by_image.get_mut(&image) {
            tag.users.remove(resource);
            if tag.users.is_empty() {
                self.by_image.remove(&image);
            }
        }
    }
}

/// Checks all tags once per interval, one after the other, until the future is dropped.
pub(crate) async fn check_tags(ctx: Arc<Context>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        for (image, puller) in ctx.tags.all() {
            match ctx.images.read_now(&image, &puller).await {
                Ok(read) => {
                    let digest = read.image_digest.to_string();
                    for (namespace, name) in ctx.tags.learn(&image, &digest) {
                        ctx.trigger.request(&namespace, &name);
                    }
                }
                Err(error) => tracing::debug!(image, %error, "failed to check a tag"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use llsd_api::check_document;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tag_that_moved_concerns_the_resources_that_use_it_and_is_dropped_with_the_last() {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"}, "spec": {"distribution": {"name": "starter"}},
        });
        let checked = check_document(document).result.expect("a valid resource");
        let puller = Puller::of(&checked, "ns");
        let resource = |name: &str| ("ns".to_owned(), name.to_owned());
        let tags = Tags::default();
        tags.register("a:1", &puller, &resource("x"));
        tags.register("a@sha256:1", &puller, &resource("y"));
        assert_eq!(tags.learn("a:1", "sha256:1"), [resource("x")]);
        assert_eq!(tags.learn("a:1", "sha256:1"), []);
        assert_eq!(tags.learn("a:1", "sha256:2"), [resource("x")]);
        assert_eq!(tags.newest("a:1").as_deref(), Some("sha256:2"));
        tags.register("b:1", &puller, &resource("x"));
        assert_eq!(tags.newest("a:1"), None);
        tags.forget(&resource("x"));
        assert!(tags.all().is_empty());
    }
}

//! Requests for reconciliations, from whoever notices a change.

use futures::Stream;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

use super::WatchedResource;

/// A resource to reconcile.
pub(crate) type ResourceRef = ObjectRef<WatchedResource>;

/// Requests the reconciliation of resources.
#[derive(Clone)]
pub(crate) struct ReconcileTrigger(mpsc::UnboundedSender<ResourceRef>);

impl ReconcileTrigger {
    /// Creates a trigger and the stream of the requested resources.
    pub(crate) fn new() -> (Self, impl Stream<Item = ResourceRef> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stream = futures::stream::unfold(receiver, async |mut receiver| {
            Some((receiver.recv().await?, receiver))
        });
        (Self(sender), stream)
    }

    /// Requests a reconciliation. Does nothing once the operator has stopped.
    pub(crate) fn request(&self, namespace: &str, name: &str) {
        let _ = self.0.send(ObjectRef::new(name).within(namespace));
    }
}

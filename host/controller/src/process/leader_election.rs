//! Leader election: only the replica that holds a Lease writes.
//!
//! All replicas watch, so that the next leader can continue at once. A leader that loses the Lease
//! stops writing; one that shuts down releases it.

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The Lease, in the operator's own namespace. Its name differs from the Lease of
/// llama-stack-k8s-operator, so that the two operators do not alternate.
const LEASE: &str = "llsd-operator";
/// How long a Lease is valid without renewal.
const DURATION_SECONDS: u64 = 15;
/// How long before the Lease expires the leader renews it.
const RENEW_BEFORE_SECONDS: u64 = 5;

/// A replica that takes part in leader election.
pub(crate) struct LeaderElection {
    is_leader: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

impl LeaderElection {
    /// Starts to take part under the name `identity`.
    pub(crate) async fn join(
        client: Client,
        namespace: &str,
        identity: &str,
    ) -> Result<Self, LeaseManagerError> {
        let manager = LeaseManagerBuilder::new(client, LEASE)
            .with_namespace(namespace)
            .with_identity(identity)
            .with_duration(DURATION_SECONDS)
            .with_grace(RENEW_BEFORE_SECONDS)
            .build()
            .await?;
        let (is_leader, task) = manager.watch().await;
        Ok(Self { is_leader, task })
    }

    /// Waits until this replica is the leader.
    pub(crate) async fn acquire(&self) {
        if self.wait_for(true).await.is_err() {
            // The election task has ended, so this replica never becomes the leader.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this replica is not the leader any more.
    pub(crate) async fn lost(&self) {
        // The end of the election task is also the end of leadership.
        let _ = self.wait_for(false).await;
    }

    /// Whether this replica is the leader.
    pub(crate) fn is_leader(&self) -> bool {
        *self.is_leader.borrow() && !self.task.is_finished()
    }

    /// Releases the Lease.
    pub(crate) async fn release(self) {
        let Self { is_leader, task } = self;
        drop(is_leader);
        match task.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to release the leader Lease"),
            Err(error) => tracing::warn!(%error, "failed to release the leader Lease"),
        }
    }

    async fn wait_for(&self, leader: bool) -> Result<(), watch::error::RecvError> {
        let mut is_leader = self.is_leader.clone();
        is_leader.wait_for(|is| *is == leader).await.map(drop)
    }
}

//! Which replica writes: the one that holds a Lease.
//!
//! Every replica watches, so that the next one can go on at once. A leader that loses the Lease stops
//! writing; one that ends gives it back.

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The Lease, in the operator's own namespace. Another name than the first operator's: the two must
/// not take turns.
const LEASE: &str = "llsd-operator";
/// How long a leader that vanished is waited for.
const SECONDS: u64 = 15;
/// How long before the end of that time a leader renews.
const GRACE_SECONDS: u64 = 5;

/// A stand for the lead.
pub(crate) struct Candidacy {
    state: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

impl Candidacy {
    /// Stands for the lead.
    pub(crate) async fn stand(
        client: Client,
        namespace: &str,
        identity: &str,
    ) -> Result<Self, LeaseManagerError> {
        let manager = LeaseManagerBuilder::new(client, LEASE)
            .with_namespace(namespace)
            .with_identity(identity)
            .with_duration(SECONDS)
            .with_grace(GRACE_SECONDS)
            .build()
            .await?;
        let (state, task) = manager.watch().await;
        Ok(Self { state, task })
    }

    /// Waits until it leads, or no longer leads.
    pub(crate) async fn becomes(&self, leader: bool) {
        let mut state = self.state.clone();
        // The end of the task is the end of the lead.
        let gone = state.wait_for(|leads| *leads == leader).await.is_err();
        if gone && leader {
            std::future::pending::<()>().await;
        }
    }

    /// Whether it leads now.
    pub(crate) fn is_leading(&self) -> bool {
        *self.state.borrow() && !self.task.is_finished()
    }

    /// Gives the Lease back.
    pub(crate) async fn resign(self) {
        let Self { state, task } = self;
        drop(state);
        match task.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the lead was not given back"),
            Err(error) => tracing::warn!(%error, "the lead was not given back"),
        }
    }
}

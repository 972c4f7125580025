//! The process around the reconciliations: leader election, probes, metrics, events, discovery,
//! installation and storage migration.
//!
//! Imports only `cache`.

mod discovery;
mod events;
mod health;
mod install;
mod leader_election;
mod metrics;
mod metrics_server;
mod probes;
mod request_verb;
mod storage_migration;
mod write_pace;

pub(crate) use discovery::{discover, discover_once};
pub(crate) use events::{Events, Transition};
pub(crate) use health::Health;
pub use install::{InstallError, install_admission, install_definitions};
pub(crate) use leader_election::LeaderElection;
pub use metrics::Metrics;
pub(crate) use metrics_server::serve_metrics;
pub(crate) use probes::serve_probes;
pub use storage_migration::{Migration, MigrationError, RejectedResource, migrate_storage};
pub use write_pace::WritePace;

/// Why a server of the operator stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("failed to serve on the listening socket")]
    Listen(#[from] std::io::Error),
    #[error("failed to create a certificate for the metrics server")]
    Certificate(#[from] rcgen::Error),
}

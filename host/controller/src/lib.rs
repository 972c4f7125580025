//! The operator: watches resources and reconciles the cluster with them.
//!
//! `llsd_render` computes what should exist, without I/O; this crate does everything else. The
//! folders, from top to bottom; each imports only folders below it:
//!
//! | folder           | content                                                                 |
//! |------------------|-------------------------------------------------------------------------|
//! | `operator`       | wires all parts together and runs them                                  |
//! | `preview`        | what a reconciliation would change, for the command line                |
//! | `plugins`        | the `SchemaPlugin` controller                                           |
//! | `reconcile`      | the reconciliation of a resource and its steps                          |
//! | `servers`        | polls running servers                                                   |
//! | `settings`       | the operator's own ConfigMap                                            |
//! | `active_plugins` | the plugins in use                                                      |
//! | `images`         | reads images from registries                                            |
//! | `process`        | leader election, probes, metrics, events, installation, migration       |
//! | `cache`          | the known state of the cluster: watches, projections, references        |
//!
//! The steps of a reconciliation are check → gather → generate → resolve secrets → build objects →
//! apply → report. A problem may stop a resource from changing, but it never changes what is running:
//! all steps before apply only read, and report runs whatever happened.
//!
//! The reconciliation of an unchanged resource makes no request, because watches keep the `cache` up
//! to date and content is read again only when its resource version changed. The exception are secret
//! values that are split into parts: they are read every time, because they are never stored.

mod active_plugins;
mod cache;
mod images;
mod operator;
mod plugins;
mod preview;
mod process;
mod reconcile;
mod servers;
mod settings;

pub use cache::{ObjectLookup, Scope};
pub use images::{ImageLookup, Registries, hints as image_hints};
pub use operator::{Endpoints, Error, Options, run};
pub use plugins::load_pulled;
pub use preview::{
    Change, ConfigChange, ObjectChange, Preview, PreviewError, PreviewOptions, Previewer,
};
pub use process::{
    InstallError, Metrics, Migration, MigrationError, RejectedResource, WritePace,
    install_admission, install_definitions, migrate_storage,
};
pub use servers::Polling;
pub use settings::Distributions;

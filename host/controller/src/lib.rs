//! The shell around the pure core: watches resources, and brings the cluster to what they say.
//!
//! Five steps with fixed names, in `reconcile`: `gather`, `expand`, render (in `llsd_render`),
//! `apply`, `report`. The law: a problem may stop a resource from changing; it may never change what
//! is running. So every step before `apply` only reads, and `report` runs whatever happened.
//!
//! A pass over a resource that has not changed makes no request: what it looks at is in the `view`,
//! which watches keep up to date, and what it reads is read again only when its version moved. Only a
//! secret value that is taken apart is read each time, because it is not kept.

mod apply;
mod configuration;
mod context;
mod expand;
mod gather;
mod health;
mod images;
mod install;
mod lead;
mod metrics;
mod migrate;
mod operator;
mod patience;
mod plugins;
mod polling;
mod preview;
mod reconcile;
mod references;
mod report;
mod serve;
mod turns;
mod view;

pub use configuration::{Distributions, Registries};
pub use images::{Error as ImageError, Images};
pub use install::{InstallError, install_admission, install_definitions};
pub use metrics::Metrics;
pub use migrate::{Migration, MigrationError, migrate_storage};
pub use operator::{Endpoints, Error, Scope, Settings, run};
pub use plugins::load_pulled;
pub use polling::Polling;
pub use preview::{ConfigChange, ObjectChange, Outlook, OutlookSettings, Preview, PreviewError};
pub use view::Seen;

//! The shell around the pure core: watches resources, and brings the cluster to what they say.
//!
//! Five steps with fixed names, in `reconcile`: `gather`, `expand`, render (in `llsd_render`),
//! `apply`, `report`. The law: a problem may stop a resource from changing; it may never change what
//! is running. So every step before `apply` only reads, and `report` runs whatever happened.
//!
//! Not here yet: leader election (run one replica only), plugins from a registry, bases from image
//! labels, pods that follow a changed secret value, removal of ConfigMaps that no pod reads any more,
//! takeover of another operator's fields, and what `llsd_render::objects` refuses. Children are read
//! from the API server on every pass; only the resources themselves come from a watch.

mod apply;
mod context;
mod digest;
mod expand;
mod gather;
mod install;
mod operator;
mod reconcile;
mod references;
mod report;

pub use install::{InstallError, install_definitions};
pub use operator::{Scope, Settings, run};

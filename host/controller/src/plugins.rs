//! The `SchemaPlugin` controller: loads plugins from registries.
//!
//! A `SchemaPlugin` names a plugin, or allows images to propose plugins. Each version passes the same
//! steps: resolve → admit → authenticate → fetch → verify → inspect → compile → dry-instantiate →
//! shadow. Then it replaces the version in use, without a restart. If a step fails, the version in
//! use stays. The components in use are stored in the cluster, so that the operator can start while
//! the registry is unavailable, and so that replicas that are not the leader can use them.
//!
//! Imports `reconcile` (to generate configurations for comparison) and what that imports.

mod checked_spec;
mod context;
mod controller;
mod events;
mod fetch;
mod load;
mod progress;
mod promotion;
mod proposed_plugins;
mod restore;
mod rollback;
mod rollout;
mod shadow;
mod status;
mod stored_component;

pub(crate) use context::SchemaPluginOptions;
pub(crate) use controller::serve_schema_plugins;
pub use load::load_pulled;
pub(crate) use restore::Restorer;
pub(crate) use shadow::Resources;

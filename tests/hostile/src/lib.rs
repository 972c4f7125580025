//! The hostile suite: inputs that try to stop the operator, or to take it away from another tenant.
//!
//! [`corpus`] holds the inputs, each with the budget that it attacks and what must happen. The suite
//! runs the built `llsd operator` on a control plane of its own, with the memory limit of the shipped
//! Deployment ([`MemoryLimit`]), and a well-behaved tenant beside the hostile one ([`FairTenant`]).

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

pub mod case;
pub mod corpus;
mod fair_tenant;
mod hostile_registry;
mod image;
mod memory_limit;
mod operator;
mod suite;

pub use case::{Attack, Case, Outcome};
pub use fair_tenant::FairTenant;
pub use hostile_registry::HostileRegistry;
pub use image::Image;
pub use memory_limit::MemoryLimit;
pub use operator::Operator;
pub use suite::{Report, Suite};

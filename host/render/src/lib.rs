//! The pure core: a resource, a base configuration and plugin answers to desired objects.
//!
//! No client, clock, environment, randomness or async. Equal inputs give byte-equal output.
//! [`generate`] makes the server's configuration; what calls plugins is behind [`adapter::Adapter`].
//! [`objects::objects`] makes the Kubernetes objects around it.

pub mod adapter;
mod choose;
pub mod digest;
pub mod distributions;
mod generate;
pub mod objects;
pub mod order;
mod provider_package;
pub mod trust;
pub mod yaml;

pub use choose::{Reason, Undecided};
pub use generate::{
    Generated, Inputs, PodVariable, Receipt, Refusal, Surroundings, ValueSource, generate,
};
pub use provider_package::ProviderPackage;

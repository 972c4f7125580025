//! The pure core: turns a resource, a base configuration and plugins into Kubernetes objects.
//!
//! It uses no client, clock, environment, randomness or async. Equal inputs give byte-equal output.
//! [`generate`] generates the server configuration; it calls plugins through [`adapter::Adapter`].
//! [`objects::build_objects`] builds the Kubernetes objects.

pub mod adapter;
pub mod ca_bundle;
pub mod digest;
pub mod distributions;
mod generate;
pub mod key_order;
pub mod limits;
pub mod objects;
pub mod override_config;
mod provider_package;
mod running_release;
mod schema_selection;
mod server_facts;
pub mod yaml;

pub use generate::{
    ENGINE, GenerateError, Generated, Inputs, PodContext, PodVariable, Receipt, ValueSource,
    generate, merge_patch,
};
pub use provider_package::ProviderPackage;
pub use running_release::running_release;
pub use schema_selection::{
    ReleaseRange, SchemaChoice, SchemaError, SchemaSource, candidate, schema_of_base,
    schema_of_release, served_schemas,
};
pub use server_facts::{EntryPoint, ServerFacts, data_folders};

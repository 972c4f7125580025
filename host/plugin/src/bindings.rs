//! Generated bindings, one module for each released version of the WIT contract.
//!
//! To add a version: add a folder under `wit/`, a module here, and conversions into the SDK's
//! document types. The rest of the host uses only those types.

pub(crate) mod v1_0;

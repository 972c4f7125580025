//! Support code of the node tests: an operator on a real node, servers, and clients that talk to them.
//!
//! All tests of a program share one node and one operator, which is installed from the manifests. Each
//! test has a namespace of its own with a model server in it.

mod client;
mod cluster;
mod footprint;
mod lab;

pub use client::{Server, chat};
pub use cluster::Cluster;
pub use footprint::Footprint;
pub use lab::Lab;

/// The model that the model server of every namespace serves.
pub const MODEL: &str = "llama3.2-8b";

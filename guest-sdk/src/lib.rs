//! The SDK for LlamaStack schema adapters and provider packs.
//!
//! A plugin turns a `LlamaStackDistribution` resource into the configuration of one server
//! release. Implement [`SchemaAdapter`] (or [`ProviderPack`]) on a type, export it with [`export!`], and
//! build the crate with `llsd plugin build`. The same crate runs natively under `cargo test`, where
//! [`exchange`] takes the place of the sandbox.
//!
//! A plugin sees only its arguments, and fails by returning [`Diagnostic`]s. A panic is a trap: it
//! counts as a bug of the plugin, and its message is lost.

mod adapter;
#[cfg(all(target_family = "wasm", feature = "low-fuel"))]
mod arena;
#[cfg(target_family = "wasm")]
#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "wit-bindgen writes the canonical ABI glue"
)]
pub mod bindings;
mod canonical;
mod diagnostic;
pub mod documents;
pub mod exchange;
mod export;
#[cfg(not(target_family = "wasm"))]
pub mod golden;
mod release;

pub use adapter::{Candidate, Detection, ProviderPack, SchemaAdapter};
pub use diagnostic::{Answer, Diagnostic, Diagnostics, Outcome, Severity};
pub use release::Release;
pub use serde_json;

#[cfg(all(target_family = "wasm", feature = "low-fuel"))]
#[global_allocator]
static ALLOCATOR: arena::Arena = arena::Arena::new();

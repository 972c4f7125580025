//! The schema adapter for llama-stack 0.7, and 0.5 to 0.6.
//!
//! All code and data are in `llsd-dialects`; this crate exports them as a component.

use llsd_dialects::{Adapter, LLAMA_STACK_0_5, LLAMA_STACK_0_7, implement_adapter};

/// Serves llama-stack 0.7, and 0.5 to 0.6.
#[derive(Debug)]
pub struct Plugin;

implement_adapter!(
    Plugin,
    Adapter {
        name: "llama-stack-0.7",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_7, &LLAMA_STACK_0_5],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

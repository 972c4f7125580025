//! The schema adapter for llama-stack 0.4, and 0.3.
//!
//! All code and data are in `llsd-dialects`; this crate exports them as a component.

use llsd_dialects::{Adapter, LLAMA_STACK_0_3, LLAMA_STACK_0_4, implement_adapter};

/// Serves llama-stack 0.4, and 0.3.
#[derive(Debug)]
pub struct Plugin;

implement_adapter!(
    Plugin,
    Adapter {
        name: "llama-stack-0.4",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_4, &LLAMA_STACK_0_3],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

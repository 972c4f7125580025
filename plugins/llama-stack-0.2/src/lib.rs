//! The schema adapter for llama-stack 0.2.13 to 0.2.24, and 0.1.3 to 0.2.12.
//!
//! All code and data are in `llsd-dialects`; this crate exports them as a component.

use llsd_dialects::{Adapter, LLAMA_STACK_0_1_3, LLAMA_STACK_0_2_13, implement_adapter};

/// Serves llama-stack 0.2.13 to 0.2.24, and 0.1.3 to 0.2.12.
#[derive(Debug)]
pub struct Plugin;

implement_adapter!(
    Plugin,
    Adapter {
        name: "llama-stack-0.2",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_2_13, &LLAMA_STACK_0_1_3],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

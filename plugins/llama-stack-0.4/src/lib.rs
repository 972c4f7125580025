//! The schema adapter for llama-stack 0.4, and 0.3.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.

use llsd_dialects::{Adapter, LLAMA_STACK_0_3, LLAMA_STACK_0_4, answer_as};

/// Serves llama-stack 0.4, and 0.3.
#[derive(Debug)]
pub struct Plugin;

answer_as!(
    Plugin,
    Adapter {
        name: "llama-stack-0.4",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_4, &LLAMA_STACK_0_3],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

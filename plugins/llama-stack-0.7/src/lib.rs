//! The schema adapter for llama-stack 0.7, and 0.5 to 0.6.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.

use llsd_dialects::{Adapter, LLAMA_STACK_0_5, LLAMA_STACK_0_7, answer_as};

/// Serves llama-stack 0.7, and 0.5 to 0.6.
#[derive(Debug)]
pub struct Plugin;

answer_as!(
    Plugin,
    Adapter {
        name: "llama-stack-0.7",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_7, &LLAMA_STACK_0_5],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

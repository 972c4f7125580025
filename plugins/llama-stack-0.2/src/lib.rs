//! The schema adapter for llama-stack 0.2.13 to 0.2.24, and 0.1.3 to 0.2.12.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.

use llsd_dialects::{Adapter, LLAMA_STACK_0_1_3, LLAMA_STACK_0_2_13, answer_as};

/// Serves llama-stack 0.2.13 to 0.2.24, and 0.1.3 to 0.2.12.
#[derive(Debug)]
pub struct Plugin;

answer_as!(
    Plugin,
    Adapter {
        name: "llama-stack-0.2",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&LLAMA_STACK_0_2_13, &LLAMA_STACK_0_1_3],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

//! The schema adapter for ogx 1.x, and 0.8.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.
//! It is not built into the operator: it stands for what a third party publishes.

use llsd_dialects::{Adapter, OGX_0_8, OGX_1_0, answer_as};

/// Serves ogx 1.x, and 0.8.
#[derive(Debug)]
pub struct Plugin;

answer_as!(
    Plugin,
    Adapter {
        name: "ogx",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&OGX_1_0, &OGX_0_8],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

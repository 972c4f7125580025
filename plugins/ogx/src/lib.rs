//! The schema adapter for ogx 1.x, and 0.8.
//!
//! All code and data are in `llsd-dialects`; this crate exports them as a component.

use llsd_dialects::{Adapter, OGX_0_8, OGX_1_0, implement_adapter};

/// Serves ogx 1.x, and 0.8.
#[derive(Debug)]
pub struct Plugin;

implement_adapter!(
    Plugin,
    Adapter {
        name: "ogx",
        version: env!("CARGO_PKG_VERSION"),
        dialects: &[&OGX_1_0, &OGX_0_8],
    }
);

llsd_adapter_sdk::export!(Plugin as schema - adapter);

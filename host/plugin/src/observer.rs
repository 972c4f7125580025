//! Call reports, for metrics and recordings.

use std::time::Duration;

use llsd_render::adapter::FaultKind;

use crate::request::{RawOutput, Request};

/// Receives a report of every call.
pub trait Observer: Send + Sync {
    /// Called after each call, on the caller's thread: must return quickly.
    fn called(&self, report: &CallReport<'_>);
}

/// One call.
#[derive(Debug, Clone)]
pub struct CallReport<'a> {
    /// Name of the plugin.
    pub plugin: &'a str,
    /// Digest of the component.
    pub digest: &'a str,
    /// The function.
    pub call: &'static str,
    /// The function and its arguments.
    pub request: &'a Request,
    /// The output, unless the call failed.
    pub output: Option<&'a RawOutput>,
    /// Fuel used. A cache hit reports the fuel of the original call.
    pub fuel: u64,
    /// How long the call took.
    pub duration: Duration,
    /// Whether the output came from the result cache, without running the guest.
    pub cache_hit: bool,
    /// Why the call failed, if it did.
    pub fault: Option<&'a FaultKind>,
}

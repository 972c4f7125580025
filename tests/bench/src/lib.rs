//! What the benchmarks share.

pub mod measurement;
mod operator;
pub mod plot;
mod reference_workload;

pub use measurement::{Goal, Measurement};
pub use operator::{
    DEADLINE, Memory, Operator, POLL_INTERVAL, QUIET, by_verb, cpu_seconds, requests, settle,
    until_count,
};
pub use reference_workload::ReferenceWorkload;

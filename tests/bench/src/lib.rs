//! What the benchmarks with a control plane share.

mod operator;

pub use operator::{
    DEADLINE, Memory, Operator, POLL_INTERVAL, QUIET, by_verb, cpu_seconds, requests, settle,
    until_count,
};

//! Real servers on a real node, behind the operator that the manifests install.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod adoption;
mod data;
mod external;
mod networking;
mod operator;
mod releases;
mod restricted;
mod rollouts;
mod samples;
mod workers;

//! Real servers on a real node, behind the operator that the manifests install.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod data;
mod networking;
mod operator;
mod releases;
mod samples;

//! The API on real API servers of the newest and the oldest Kubernetes release: which resources are
//! accepted, which layer rejects the others, and how both versions show them.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod cert_rotation;
mod conversion;
mod examples;
mod generated;
mod kubectl;
mod migration;
mod operator_binary;
mod rejections;
mod test_cluster;

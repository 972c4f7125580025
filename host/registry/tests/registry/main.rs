//! Tests of the crate with a real registry (distribution), crane and cosign, all on loopback.
//!
//! The paths of the binaries are in `LLSD_REGISTRY_BIN`, `LLSD_CRANE_BIN` and `LLSD_COSIGN_BIN`, which
//! `cargo xtask test` sets. A test proxy between client and registry injects faults.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod bad_layers;
mod caches;
mod faults;
mod files;
mod images;
mod plugins;
mod secrecy;
mod support;

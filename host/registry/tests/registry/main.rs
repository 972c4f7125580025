//! The crate against real parts: distribution's registry, crane and cosign, all on loopback.
//!
//! Their binaries are named by `LLSD_REGISTRY_BIN`, `LLSD_CRANE_BIN` and `LLSD_COSIGN_BIN`, which
//! `cargo xtask test` sets. Faults come from a proxy of our own between client and registry.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod caches;
mod faults;
mod files;
mod images;
mod plugins;
mod secrecy;
mod support;

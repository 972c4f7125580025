//! Tests of the sandbox with real components: loading, calling, caching, and hostile guests.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "../guests.rs"]
mod guests;

mod caches;
mod calls;
mod contract;
mod fuzz;
mod hostile;
mod load;

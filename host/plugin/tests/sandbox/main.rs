//! The sandbox against real components: what loads, what does not, and what a guest can do to the
//! host, which is nothing.

#![allow(clippy::unwrap_used, reason = "a test whose setting fails has failed")]

#[path = "../guests.rs"]
mod guests;

mod caches;
mod calls;
mod hostile;
mod load;

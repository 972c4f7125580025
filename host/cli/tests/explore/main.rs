//! `llsd explore` over real HTTP on the loopback address: whom it answers, what it answers, and that
//! hostile resources and plugins end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod cluster;
mod guard;
#[path = "../../../plugin/tests/guests.rs"]
mod guests;
mod page;

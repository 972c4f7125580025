//! The API on real API servers of the newest and the oldest Kubernetes release: what is refused and by
//! whom, what is accepted, and what both versions show.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod conversion;
mod examples;
mod generated;
mod kubectl;
mod migration;
mod plane;
mod processes;
mod refusals;
mod rotation;

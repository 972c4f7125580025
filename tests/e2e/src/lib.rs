//! What the end-to-end tests under `tests/` share: an operator for each test, on a real control plane.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod resource;
mod rights;
mod shelf;
mod stage;

pub use resource::{condition, config_map, minimal, phase};
pub use shelf::Shelf;
pub use stage::{DEADLINE, Operator, SERVED_BY, Stage};

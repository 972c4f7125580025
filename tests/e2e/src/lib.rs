//! What the end-to-end tests under `tests/` share: an operator for each test, on a real control plane.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod footprint;
mod line;
mod objects;
mod process;
mod resource;
mod rights;
mod shelf;
mod stage;
mod webhooks;

pub use footprint::Footprint;
pub use line::Line;
pub use process::Process;
pub use resource::{STARTER, condition, config_map, minimal, named, ogx_base, on_image, phase};
pub use rights::{Right, granted};
pub use shelf::Shelf;
pub use stage::{DEADLINE, Operator, SERVED_BY, Stage, host, plugins, registries};
pub use webhooks::serve_webhooks;

//! The contract as Rust sees it, one module per released version of the WIT.
//!
//! The next version is a new folder under `wit/`, a new module here, and conversions into the
//! documents of the SDK, which are all that the rest of the host knows.

pub(crate) mod v1_0;

//! Everything that crosses the network to a registry.
//!
//! Two things live there: distribution images, whose labels say where the server's base configuration is, and
//! plugins, which are OCI artifacts. This crate reads both (and writes both, for those who publish them) for the
//! operator, the webhook and the command line. In: references, credentials and an installer's settings. Out: bytes
//! that have the digest they were asked for by, or an error that says which step failed and who can mend it.
//!
//! What it must never do: connect to an address the [`guard`] refuses, use one tenant's credential or token for
//! another, fall back to no credential when one was refused, keep bytes that were not checked, or show a secret.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use llsd_registry::{Keyring, Registry, Settings};
//!
//! let registry = Registry::new(Settings::default())?;
//! let base = registry.base_config(&"llamastack/distribution-starter:0.7".parse()?, &Keyring::empty()).await?;
//! assert!(base.yaml.contains("apis"));
//! # Ok(())
//! # }
//! ```

mod artifact;
mod base;
mod cache;
mod challenge;
mod client;
pub mod credentials;
mod digest;
mod error;
mod file;
pub mod guard;
pub mod image;
pub mod keep;
pub mod labels;
mod layer;
mod manifest;
mod mirror;
mod plugin;
mod policy;
mod reference;
mod session;
mod settings;
pub mod signature;
mod transport;

pub use artifact::Description;
pub use base::{BaseConfig, Error as BaseError};
pub use client::Registry;
pub use credentials::Keyring;
pub use digest::{Digest, ParseDigestError};
pub use error::{Error, chain};
pub use file::Error as FileError;
pub use image::{ImageReport, Labelled, Labelling};
pub use labels::Scheme;
pub use layer::Error as LayerError;
pub use manifest::Platform;
pub use mirror::{Mirror, Mirrors};
pub use plugin::{Cause, PullError, PulledPlugin, Pushed, Stage, Verdict};
pub use policy::{Denied, Policy, Rule};
pub use reference::{ParseReferenceError, Reference};
pub use settings::{Limits, ProxySettings, Retry, Settings, Timeouts};

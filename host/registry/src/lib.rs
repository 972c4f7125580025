//! The registry client: everything that is read from or written to an OCI registry.
//!
//! A registry holds distribution images, whose labels locate the server's base configuration, and
//! plugins, which are OCI artifacts. This crate reads and writes both, for the operator, the webhook
//! and the command line.
//! In: references, credentials and the installer's settings. Out: content that matches its digest,
//! or an error that names the failed step and what to do.
//!
//! This crate must never connect to an address that the [`guard`] blocks, use the credential or token
//! of one tenant for another, fall back to anonymous access when a credential was refused, cache
//! content that was not verified, or print a secret.
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
mod base_config;
mod bounded;
mod cache;
mod challenge;
mod client;
pub mod credentials;
mod digest;
mod error;
pub mod guard;
mod image_file;
mod image_report;
pub mod labelling;
pub mod labels;
mod layer;
mod manifest;
mod mirror;
mod opened_image;
mod plugin;
mod policy;
mod reference;
mod session;
mod settings;
pub mod signature;
mod transport;

pub use artifact::{Attachment, Description, WriteError, write_layout};
pub use base_config::{BaseConfig, Error as BaseError};
pub use client::Registry;
pub use credentials::Keyring;
pub use digest::{Digest, ParseDigestError};
pub use error::{Error, chain};
pub use image_file::Error as FileError;
pub use image_report::ImageReport;
pub use labelling::{Labelled, Labelling};
pub use labels::Scheme;
pub use layer::Error as LayerError;
pub use manifest::Platform;
pub use mirror::{Mirror, Mirrors};
pub use plugin::{Cause, PullError, PulledPlugin, Pushed, SignatureStatus, Stage};
pub use policy::{Denied, Policy, Rule};
pub use reference::{ParseReferenceError, Reference};
pub use settings::{Limits, ProxySettings, Retry, Settings, Timeouts, TransferObserver};

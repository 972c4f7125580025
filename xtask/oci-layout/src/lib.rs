//! Writes container images as OCI layouts, without a container engine.
//!
//! In: files and an image configuration. Out: a folder with `oci-layout`, `index.json` and blobs, as the
//! OCI image specification defines it. `crane push`, `skopeo copy` and `ctr images import` read it.
//!
//! Equal inputs give equal bytes: nothing here reads a clock, and [`LayerWriter::file`] and its
//! siblings write no owner and no time of this machine.

mod image;
mod layer;
mod layout;

pub use image::{ImageConfig, Platform};
pub use layer::{Compression, Layer, LayerWriter};
pub use layout::{Artifact, Descriptor, ImageLayout, REF_NAME, Referrer, export};

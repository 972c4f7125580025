//! The adapters that are inside the `llsd` binary: the floor that needs no registry.
//!
//! The build script compiles them for WebAssembly; here are only their bytes.

/// A component that ships inside the binary.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name of the adapter, for example `llama-stack-0.7`.
    pub name: &'static str,
    /// `sha256:…` of the component.
    pub digest: &'static str,
    /// The component.
    pub component: &'static [u8],
}

/// All of them, newest first.
pub const ADAPTERS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/adapters.rs"));

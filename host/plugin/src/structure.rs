//! The imports and exports of a component, at any depth.
//!
//! A component may contain modules and components, whose imports are normal: the enclosing component
//! passes their arguments. Two kinds of import reach outside of the component:
//!
//! - an import of the outermost component that leads to something callable, however deep inside
//!   instance types;
//! - an import of an inner module or component that nothing inside instantiates, so that nothing
//!   inside provides its imports.

mod walk;

use wasmparser::WasmFeatures;

use crate::load::LoadError;

/// The imports and exports of a component.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// Imports that can be called.
    pub(crate) imports: Vec<String>,
    /// Imports of types only.
    pub(crate) type_imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// The first use of a feature that is not allowed.
    pub(crate) forbidden_feature: Option<String>,
}

/// Parses and validates a component.
pub(crate) fn read(bytes: &[u8]) -> Result<Structure, LoadError> {
    match walk::walk(bytes, allowed_features()) {
        Ok(structure) => Ok(structure),
        // A component that is valid with all features enabled uses a forbidden one. Any other is
        // malformed.
        Err(error) => match walk::walk(bytes, WasmFeatures::all()) {
            Ok(structure) => Ok(Structure {
                forbidden_feature: Some(error.message().to_owned()),
                ..structure
            }),
            Err(_) => Err(LoadError::Malformed(error.to_string())),
        },
    }
}

/// The features that a plugin may use: WebAssembly 2 and a few additions under which it is still a
/// pure function. The engine has the same settings.
fn allowed_features() -> WasmFeatures {
    (WasmFeatures::WASM2
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::COMPONENT_MODEL)
        - WasmFeatures::GC_TYPES
}

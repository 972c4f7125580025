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

use llsd_api::escape_line;
use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReaderError, WasmFeatures};

use crate::load::LoadError;

/// The longest name that is kept. Names of the contract have fewer than 60 bytes.
const MAX_NAME_BYTES: usize = 256;
/// The most names that are kept of each kind. An adapter in Rust has four exports.
const MAX_LISTED: usize = 64;

/// The imports and exports of a component.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Structure {
    /// Imports that can be called.
    pub(crate) imports: Names,
    /// Imports of types only.
    pub(crate) type_imports: Names,
    pub(crate) exports: Names,
    /// The first use of a feature that is not allowed.
    pub(crate) forbidden_feature: Option<String>,
}

/// Names that a component contains, limited in number and length and with control characters escaped.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Names {
    listed: Vec<String>,
    total: usize,
}

impl Names {
    fn push(&mut self, name: &str) {
        self.push_with(|| name.to_owned());
    }

    fn push_with(&mut self, name: impl FnOnce() -> String) {
        self.total += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed
                .push(shortened(escape_line(&name()).into_owned()));
        }
    }

    fn total(&self) -> usize {
        self.total
    }

    /// The names that are kept.
    fn into_listed(self) -> Vec<String> {
        self.listed
    }

    /// The names, and how many others there are.
    pub(crate) fn into_vec(self) -> Vec<String> {
        let others = self.total - self.listed.len();
        let mut listed = self.listed;
        if others > 0 {
            listed.push(format!("… and {others} more"));
        }
        listed
    }
}

fn shortened(mut name: String) -> String {
    if name.len() > MAX_NAME_BYTES {
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        name.push('…');
    }
    name
}

/// Why the structure cannot be read.
enum ReadError {
    Malformed(BinaryReaderError),
    /// There are more of these things than the limit.
    TooComplex(&'static str, usize),
}

impl From<BinaryReaderError> for ReadError {
    fn from(error: BinaryReaderError) -> Self {
        Self::Malformed(error)
    }
}

/// Parses and validates a component.
pub(crate) fn read(bytes: &[u8]) -> Result<Structure, LoadError> {
    let clean = |text: &str| shortened(escape_line(text).into_owned());
    let error = match walk::walk(bytes, allowed_features()) {
        Ok(structure) => return Ok(structure),
        Err(ReadError::TooComplex(what, limit)) => {
            return Err(LoadError::TooComplex {
                what: what.into(),
                limit,
            });
        }
        Err(ReadError::Malformed(error)) => error,
    };
    // A component that is valid with all features enabled uses a forbidden one. Any other is malformed.
    match walk::walk(bytes, WasmFeatures::all()) {
        Ok(structure) => Ok(Structure {
            forbidden_feature: Some(clean(error.message())),
            ..structure
        }),
        Err(_) => Err(LoadError::Malformed(clean(&error.to_string()))),
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

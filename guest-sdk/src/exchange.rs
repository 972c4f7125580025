//! Documents across the boundary: typed values to canonical JSON text and back.
//!
//! The functions here are what the component exports, at the level of documents. The wasm bindings
//! and the native harness both call them, so that `cargo test` runs exactly what the sandbox runs.

use serde::Serialize;

pub use crate::canonical::canonical;

use crate::adapter::{Detection, ProviderPack, SchemaAdapter};
use crate::diagnostic::{Answer, Diagnostic, Outcome};
use crate::documents::{
    Assembly, AssemblyRequest, Base, Description, Document, Expansion, ExpansionRequest, Hints,
};

/// JSON text and the id of its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Shape id.
    pub shape: String,
    /// Canonical JSON.
    pub json: String,
}

impl Text {
    /// A value as a document of shape `T`.
    pub fn of<T: Document>(value: &impl Serialize) -> Self {
        Self {
            shape: T::SHAPE.to_owned(),
            json: canonical(value),
        }
    }
}

/// Canonical JSON text of a document: keys sorted, no insignificant space.
pub fn write<T: Document>(value: &T) -> Text {
    Text::of::<T>(value)
}

/// Reads a document of the expected shape.
pub fn read<T: Document>(text: &Text) -> Result<T, Diagnostic> {
    if text.shape != T::SHAPE {
        return Err(Diagnostic::error(
            "unknown-shape",
            "",
            format!(
                "a document of shape {:?} arrived where {:?} is understood",
                text.shape,
                T::SHAPE
            ),
            "use a plugin and a host that share a version of the contract",
        ));
    }
    serde_json::from_str(&text.json).map_err(|error| {
        Diagnostic::error(
            "malformed-document",
            "",
            format!(
                "the {:?} document does not fit its shape: {error}",
                T::SHAPE
            ),
            "send a document that fits the published JSON Schema",
        )
    })
}

/// `identity.describe`.
pub fn describe<A: ProviderPack>() -> Text {
    write::<Description>(&A::describe())
}

/// `detection.detect`. What cannot be read is nobody's.
pub fn detect<A: SchemaAdapter>(base: &Text, hints: &Text) -> Detection {
    let (Ok(base), Ok(hints)) = (read::<Base>(base), read::<Hints>(hints)) else {
        return Detection::None;
    };
    let detection = A::detect(&base.0, &hints);
    abandon(base);
    detection
}

/// `expansion.expand`. References whose variables no server would substitute do not reach the plugin.
pub fn expand<A: ProviderPack>(request: &Text) -> Answer<Text> {
    answer::<ExpansionRequest, Expansion>(request, |request: ExpansionRequest| {
        let is_variable = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        let broken: Vec<Diagnostic> = request
            .entry
            .references
            .iter()
            .filter(|(_, variable)| !is_variable(variable))
            .map(|(field, variable)| {
                let problem = format!("{variable:?} is no name for a variable");
                Diagnostic::error(
                    "malformed-reference",
                    format!("{}.{field}", request.path),
                    problem,
                    "use upper-case letters, digits and _",
                )
            })
            .collect();
        if broken.is_empty() {
            A::expand(request)
        } else {
            Err(broken)
        }
    })
}

/// `assembly.assemble`.
pub fn assemble<A: SchemaAdapter>(request: &Text) -> Answer<Text> {
    answer::<AssemblyRequest, Assembly>(request, A::assemble)
}

fn answer<Q: Document, R: Document>(
    request: &Text,
    ask: impl FnOnce(Q) -> Answer<R>,
) -> Answer<Text> {
    let request = read::<Q>(request).map_err(|problem| vec![problem])?;
    let Outcome { output, warnings } = ask(request)?;
    let text = write(&output);
    abandon(output);
    Ok(Outcome {
        output: text,
        warnings,
    })
}

/// Drops a value where that is of use: the memory of a guest ends with the call.
fn abandon<T>(value: T) {
    if cfg!(target_family = "wasm") {
        std::mem::forget(value);
    }
}

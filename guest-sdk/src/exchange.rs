//! Converts typed values to canonical JSON documents and back.
//!
//! These functions are the component's exports, at the level of documents. The WebAssembly bindings and
//! the native test harness both call them, so that `cargo test` runs what the sandbox runs.

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
                "a document of shape {:?} was received where {:?} was expected",
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

/// `detection.detect`. Documents that cannot be read are not detected.
pub fn detect<A: SchemaAdapter>(base: &Text, hints: &Text) -> Detection {
    let (Ok(base), Ok(hints)) = (read::<Base>(base), read::<Hints>(hints)) else {
        return Detection::None;
    };
    let detection = A::detect(&base.0, &hints);
    abandon(base);
    detection
}

/// `expansion.expand`. Rejects references whose variable names the server does not substitute.
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
                let problem = format!("{variable:?} is not a valid variable name");
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

/// Drops a value natively, and leaks it in a component, whose memory ends with the call.
fn abandon<T>(value: T) {
    if cfg!(target_family = "wasm") {
        std::mem::forget(value);
    }
}

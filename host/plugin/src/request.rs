//! A call and its answer at the level of documents: what `llsd plugin run` reads and prints, what
//! the conformance suite sends, and what the typed calls are made of.

use llsd_adapter_sdk::documents::{AssemblyRequest, Base, ExpansionRequest, Hints};
use llsd_adapter_sdk::exchange::Text;
use llsd_adapter_sdk::{Answer, Detection, Diagnostic, Outcome, Severity};
use llsd_render::digest;
use serde_json::{Value, json};

/// A function of the contract with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `identity.describe`.
    Describe,
    /// `detection.detect`.
    Detect {
        /// A `base/v1`.
        base: Text,
        /// A `hints/v1`.
        hints: Text,
    },
    /// `expansion.expand` with an `expansion-request/v1`.
    Expand(Text),
    /// `assembly.assemble` with an `assembly-request/v1`.
    Assemble(Text),
}

/// Why there is no such call.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The contract has no such function.
    #[error("no function is called {0:?}; use one of: describe, detect, expand, assemble")]
    UnknownCall(String),
    /// `detect` takes two documents.
    #[error("detect takes {{\"base\": …, \"hints\": …}}; {0:?} is missing")]
    Missing(&'static str),
}

impl Request {
    /// The functions of the contract, by name.
    pub const CALLS: [&'static str; 4] = ["describe", "detect", "expand", "assemble"];

    /// A call by name with its argument as JSON: nothing for `describe`, `{"base": …, "hints": …}`
    /// for `detect` (absent hints: none), the document itself for the others.
    pub fn from_json(call: &str, argument: &Value) -> Result<Self, RequestError> {
        match call {
            "describe" => Ok(Self::Describe),
            "detect" => Ok(Self::Detect {
                base: Text::of::<Base>(argument.get("base").ok_or(RequestError::Missing("base"))?),
                hints: Text::of::<Hints>(argument.get("hints").unwrap_or(&json!({}))),
            }),
            "expand" => Ok(Self::Expand(Text::of::<ExpansionRequest>(argument))),
            "assemble" => Ok(Self::Assemble(Text::of::<AssemblyRequest>(argument))),
            _ => Err(RequestError::UnknownCall(call.to_owned())),
        }
    }

    /// Name of the function.
    pub fn call(&self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Detect { .. } => "detect",
            Self::Expand(_) => "expand",
            Self::Assemble(_) => "assemble",
        }
    }

    /// The shapes of the arguments. The digest is of their JSON alone.
    pub(crate) fn shapes(&self) -> String {
        match self {
            Self::Describe => String::new(),
            Self::Detect { base, hints } => format!("{} {}", base.shape, hints.shape),
            Self::Expand(request) | Self::Assemble(request) => request.shape.clone(),
        }
    }

    /// `sha256:…` of the argument as sent; of `{"base":…,"hints":…}` for `detect`, of nothing for
    /// `describe`.
    pub fn digest(&self) -> String {
        match self {
            Self::Describe => digest::of(b""),
            Self::Detect { base, hints } => {
                let both = format!(r#"{{"base":{},"hints":{}}}"#, base.json, hints.json);
                digest::of(both.as_bytes())
            }
            Self::Expand(request) | Self::Assemble(request) => digest::of(request.json.as_bytes()),
        }
    }
}

/// What a plugin answered, not yet read into the types of the documents.
#[derive(Debug, Clone, PartialEq)]
pub enum RawAnswer {
    /// To `describe`.
    Description(Text),
    /// To `detect`.
    Detection(Detection),
    /// To `expand` and `assemble`.
    Outcome(Answer<Text>),
}

impl RawAnswer {
    /// The answer as canonical JSON text: `{"one": id}`, `{"oneOf": […]}` or `{"none": true}` for
    /// `detect`, `{"output": …, "warnings": […]}` or `{"problems": […]}` for `expand` and
    /// `assemble`, the document for `describe`. A document is taken as the plugin wrote it.
    pub fn to_json(&self) -> String {
        match self {
            Self::Description(text) => text.json.clone(),
            Self::Detection(Detection::One(id)) => json!({ "one": id }).to_string(),
            Self::Detection(Detection::OneOf(ids)) => json!({ "oneOf": ids }).to_string(),
            Self::Detection(Detection::None) => json!({ "none": true }).to_string(),
            Self::Outcome(Ok(Outcome { output, warnings })) => {
                format!(
                    r#"{{"output":{},"warnings":{}}}"#,
                    output.json,
                    diagnostics(warnings)
                )
            }
            Self::Outcome(Err(problems)) => format!(r#"{{"problems":{}}}"#, diagnostics(problems)),
        }
    }

    /// Bytes that remembering this answer costs, roughly.
    pub(crate) fn size(&self) -> usize {
        let list = |all: &[Diagnostic]| all.iter().map(diagnostic_bytes).sum::<usize>();
        match self {
            Self::Description(text) => text.json.len(),
            Self::Detection(Detection::One(id)) => id.len(),
            Self::Detection(Detection::OneOf(ids)) => ids.iter().map(String::len).sum(),
            Self::Detection(Detection::None) => 0,
            Self::Outcome(Ok(Outcome { output, warnings })) => output.json.len() + list(warnings),
            Self::Outcome(Err(problems)) => list(problems),
        }
    }
}

/// Bytes of text in a diagnostic.
fn diagnostic_bytes(diagnostic: &Diagnostic) -> usize {
    let Diagnostic {
        field,
        severity: _,
        code,
        problem,
        fix,
    } = diagnostic;
    field.len() + code.len() + problem.len() + fix.len()
}

fn diagnostics(all: &[Diagnostic]) -> Value {
    all.iter()
        .map(|Diagnostic { field, severity, code, problem, fix }| {
            let severity = match severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            json!({ "code": code, "field": field, "fix": fix, "problem": problem, "severity": severity })
        })
        .collect()
}

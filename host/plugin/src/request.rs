//! Requests and outputs as JSON documents. `llsd plugin run` and the conformance suite use them
//! directly; the typed calls are built on them.

use llsd_adapter_sdk::documents::{AssemblyRequest, Base, ExpansionRequest, Hints};
use llsd_adapter_sdk::exchange::Text;
use llsd_adapter_sdk::{Answer, Detection, Diagnostic, Outcome, Severity};
use llsd_render::digest;
use llsd_render::limits::JsonSize;
use serde_json::{Value, json};

/// A function of the contract and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `identity.describe`.
    Describe,
    /// `detection.detect`.
    Detect {
        /// A `base/v1` document.
        base: Text,
        /// A `hints/v1` document.
        hints: Text,
    },
    /// `expansion.expand` with an `expansion-request/v1`.
    Expand(Text),
    /// `assembly.assemble` with an `assembly-request/v1`.
    Assemble(Text),
}

/// Why a request is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The contract has no such function.
    #[error("unknown function {0:?}; use one of: describe, detect, expand, assemble")]
    UnknownCall(String),
    /// An argument of `detect` is missing.
    #[error("{0:?} is missing; the argument of detect must be {{\"base\": …, \"hints\": …}}")]
    Missing(&'static str),
}

impl Request {
    /// The functions of the contract, by name.
    pub const CALLS: [&'static str; 4] = ["describe", "detect", "expand", "assemble"];

    /// A request by the name of the function, with its argument as JSON: nothing for `describe`,
    /// `{"base": …, "hints": …}` for `detect` (the hints are optional), the document itself for
    /// `expand` and `assemble`.
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

    /// The argument as JSON, which [`Request::from_json`] reads back.
    pub fn to_json(&self) -> String {
        match self {
            Self::Describe => "null".to_owned(),
            Self::Detect { base, hints } => {
                format!(r#"{{"base":{},"hints":{}}}"#, base.json, hints.json)
            }
            Self::Expand(request) | Self::Assemble(request) => request.json.clone(),
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

    /// The shapes of the arguments, which the digest does not cover.
    pub(crate) fn shapes(&self) -> String {
        match self {
            Self::Describe => String::new(),
            Self::Detect { base, hints } => format!("{} {}", base.shape, hints.shape),
            Self::Expand(request) | Self::Assemble(request) => request.shape.clone(),
        }
    }

    /// `sha256:…` of the argument as sent: of `{"base":…,"hints":…}` for `detect`, of the empty
    /// string for `describe`.
    pub fn digest(&self) -> String {
        match self {
            Self::Describe => digest::of(b""),
            Self::Detect { .. } => digest::of(self.to_json().as_bytes()),
            Self::Expand(request) | Self::Assemble(request) => digest::of(request.json.as_bytes()),
        }
    }
}

/// The output of a plugin, not yet parsed into the document types.
#[derive(Debug, Clone, PartialEq)]
pub enum RawOutput {
    /// Of `describe`.
    Description(Text),
    /// Of `detect`.
    Detection(Detection),
    /// Of `expand` and `assemble`.
    Outcome(Answer<Text>),
}

impl RawOutput {
    /// The output as canonical JSON: `{"one": id}`, `{"oneOf": […]}` or `{"none": true}` for
    /// `detect`, `{"output": …, "warnings": […]}` or `{"problems": […]}` for `expand` and
    /// `assemble`, the document for `describe`. Documents are copied as the plugin wrote them.
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

    /// Number of values in the document, an upper bound that needs no parsing.
    pub(crate) fn values(&self) -> usize {
        match self {
            Self::Description(text) | Self::Outcome(Ok(Outcome { output: text, .. })) => {
                JsonSize::measure(&text.json).values
            }
            Self::Detection(_) | Self::Outcome(Err(_)) => 0,
        }
    }

    /// Size in memory, in bytes: all strings, and what holds them.
    pub(crate) fn held_bytes(&self) -> usize {
        let holders = match self {
            Self::Description(_) | Self::Detection(Detection::One(_) | Detection::None) => 0,
            Self::Detection(Detection::OneOf(ids)) => ids.capacity() * size_of::<String>(),
            Self::Outcome(Ok(Outcome { warnings: list, .. }) | Err(list)) => {
                list.capacity() * size_of::<Diagnostic>()
            }
        };
        size_of::<Self>() + holders + self.size()
    }

    /// Size of all strings, in bytes.
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

/// Bytes of all strings of a diagnostic.
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

//! What generation asks of a schema adapter, wherever it runs.
//!
//! The sandbox implements [`Adapter`] for components; tests and benches implement it for the same
//! adapters compiled natively. Everything here is typed: JSON, digests and limits are the business
//! of the implementation.

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::{Answer, Detection};
use serde_json::Value;

/// A plugin, loaded and ready to be asked.
pub trait Adapter {
    /// What it said about itself when it was loaded.
    fn description(&self) -> &Description;

    /// `sha256:…` of the component; what receipts and statuses name it by.
    fn digest(&self) -> &str;

    /// Whether it serves the `schema-adapter` world; a provider pack only expands.
    fn is_schema_adapter(&self) -> bool;

    /// Which of its schemas a base is written in.
    fn detect(&self, base: &Value, hints: &Hints) -> Result<Called<Detection>, Fault>;

    /// One provider entry.
    fn expand(&self, request: &ExpansionRequest) -> Result<Called<Answer<Expansion>>, Fault>;

    /// The whole file.
    fn assemble(&self, request: &AssemblyRequest) -> Result<Called<Answer<Assembly>>, Fault>;
}

/// What a call gave and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Called<T> {
    /// The answer.
    pub answer: T,
    /// Fuel that it burned; the same for the same input, also when it was remembered.
    pub fuel: u64,
    /// `sha256:…` of the canonical request.
    pub input: String,
}

/// A call that gave no answer: the plugin's fault, or a limit of the host's. Never the user's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin:?} ({digest}): {call} {kind}")]
pub struct Fault {
    /// Name of the plugin.
    pub plugin: String,
    /// Digest of the component.
    pub digest: String,
    /// The function that was called.
    pub call: &'static str,
    /// What went wrong.
    pub kind: FaultKind,
}

/// What can go wrong inside a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The guest trapped; the functions on its stack, innermost first.
    #[error("trapped: {message}{}; tell its author", backtrace(.functions))]
    Trapped {
        /// What the engine says.
        message: String,
        /// Names of the functions on the stack.
        functions: Vec<String>,
    },
    /// The fuel granted was not enough: the same input will always end so.
    #[error("ran out of fuel ({granted}); grant more fuel or tell its author")]
    OutOfFuel {
        /// Fuel granted.
        granted: u64,
    },
    /// The wall-clock limit ended the call: this host is slow or overloaded.
    #[error("ran past {limit_ms} ms of wall-clock time; look at the load of this machine")]
    OutOfTime {
        /// Milliseconds granted.
        limit_ms: u64,
    },
    /// The guest asked for more memory, table or instances than granted.
    #[error("asked for more {what} than granted ({granted}); grant more or tell its author")]
    OverLimit {
        /// What it asked for.
        what: &'static str,
        /// What was granted.
        granted: u64,
    },
    /// The answer breaks the contract.
    #[error("answered outside the contract: {0}; tell its author")]
    BadAnswer(String),
}

fn backtrace(functions: &[String]) -> String {
    if functions.is_empty() {
        String::new()
    } else {
        format!(" (in {})", functions.join(" < "))
    }
}

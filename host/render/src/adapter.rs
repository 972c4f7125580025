//! The interface that generation uses to call a plugin.
//!
//! The sandbox implements [`Adapter`] for WebAssembly components. Tests and benches implement it for
//! the same adapters compiled natively. The interface is typed; JSON, digests and limits belong to
//! the implementation.

use std::fmt;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::{Answer, Detection};
use serde_json::Value;

/// A loaded plugin.
pub trait Adapter {
    /// The description that the plugin returned when it was loaded.
    fn description(&self) -> &Description;

    /// `sha256:…` of the component, which identifies the plugin in receipts and statuses.
    fn digest(&self) -> &str;

    /// Whether it exports the `schema-adapter` world. A provider pack only expands.
    fn is_schema_adapter(&self) -> bool;

    /// Detects which of the plugin's schemas a base configuration is written in.
    fn detect(&self, base: &Value, hints: &Hints) -> Result<Response<Detection>, Fault>;

    /// Expands one provider entry.
    fn expand(&self, request: &ExpansionRequest) -> Result<Response<Answer<Expansion>>, Fault>;

    /// Assembles the complete server configuration.
    fn assemble(&self, request: &AssemblyRequest) -> Result<Response<Answer<Assembly>>, Fault>;
}

/// The output of a call, and what the call used.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<T> {
    /// The output.
    pub output: T,
    /// Fuel used: the same for the same input. A cache hit has the fuel of the original call.
    pub fuel: u64,
    /// `sha256:…` of the canonical request.
    pub input: String,
}

/// A failed call. The cause is the plugin or a limit of the host, never the user's resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin:?} ({digest}): {call} {kind}")]
pub struct Fault {
    /// Name of the plugin.
    pub plugin: String,
    /// Digest of the component.
    pub digest: String,
    /// The function that was called.
    pub call: &'static str,
    /// Why it failed.
    pub kind: FaultKind,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The guest trapped.
    #[error("trapped: {message}{}; report this to the plugin's author", backtrace(.functions))]
    Trapped {
        /// The engine's message.
        message: String,
        /// Names of the functions on the guest's stack, innermost first.
        functions: Vec<String>,
    },
    /// The call used all of its fuel. The same input fails every time.
    #[error(
        "exceeded the fuel limit of {limit}; raise spec.limits.fuel of the SchemaPlugin (fuel in the file of --limits), or report this to the plugin's author"
    )]
    OutOfFuel {
        /// The limit.
        limit: u64,
    },
    /// The call exceeded the wall-clock limit, because this machine is slow or overloaded.
    #[error(
        "exceeded the time limit of {limit_ms} ms; check the CPU load of this machine, or raise spec.limits.wallClockMillis of the SchemaPlugin (wallClockMillis in the file of --limits)"
    )]
    OutOfTime {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The guest needed more of a resource than its limit.
    #[error("exceeded the limit of {limit} {resource}; {}", .resource.fix())]
    LimitExceeded {
        /// The resource.
        resource: LimitedResource,
        /// The limit.
        limit: u64,
    },
    /// The output violates the contract.
    #[error("returned invalid output: {0}; report this to the plugin's author")]
    InvalidOutput(String),
}

/// A resource that the sandbox limits, besides fuel and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedResource {
    /// Linear memory, all memories together.
    MemoryBytes,
    /// Elements of all tables together.
    TableElements,
    /// Linear memories of one component.
    Memories,
    /// Tables of one component.
    Tables,
    /// Core instances of one component.
    Instances,
    /// The output of one call, diagnostics included.
    OutputBytes,
    /// JSON values in the output of one call.
    OutputValues,
    /// Diagnostics in the output of one call.
    Diagnostics,
}

impl LimitedResource {
    /// What to do when the limit is exceeded.
    fn fix(self) -> &'static str {
        match self {
            Self::MemoryBytes => {
                "raise spec.limits.memory of the SchemaPlugin (memory in the file of --limits), or report this to the plugin's author"
            }
            Self::OutputBytes => {
                "raise spec.limits.output of the SchemaPlugin (output in the file of --limits), or report this to the plugin's author"
            }
            Self::TableElements => {
                "raise spec.limits.tableElements of the SchemaPlugin (tableElements in the file of --limits), or report this to the plugin's author"
            }
            Self::Instances => {
                "raise spec.limits.instances of the SchemaPlugin (instances in the file of --limits), or report this to the plugin's author"
            }
            Self::Memories | Self::Tables | Self::OutputValues | Self::Diagnostics => {
                "this limit is fixed and the plugin must stay below it; report this to the plugin's author"
            }
        }
    }
}

impl fmt::Display for LimitedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryBytes => "bytes of memory",
            Self::TableElements => "table elements",
            Self::Memories => "memories",
            Self::Tables => "tables",
            Self::Instances => "core instances",
            Self::OutputBytes => "bytes of output",
            Self::OutputValues => "values in the output",
            Self::Diagnostics => "diagnostics",
        })
    }
}

fn backtrace(functions: &[String]) -> String {
    if functions.is_empty() {
        String::new()
    } else {
        format!(" (in {})", functions.join(" < "))
    }
}

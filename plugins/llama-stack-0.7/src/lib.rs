//! The schema adapter for llama-stack 0.7, and 0.5 to 0.6.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Detection, ProviderPack, SchemaAdapter};
use llsd_dialects::{Adapter, LLAMA_STACK_0_5, LLAMA_STACK_0_7};

const ADAPTER: Adapter = Adapter {
    name: "llama-stack-0.7",
    version: env!("CARGO_PKG_VERSION"),
    dialects: &[&LLAMA_STACK_0_7, &LLAMA_STACK_0_5],
};

/// Serves llama-stack 0.7, and 0.5 to 0.6.
#[derive(Debug)]
pub struct Plugin;

impl ProviderPack for Plugin {
    fn describe() -> Description {
        ADAPTER.describe()
    }

    fn expand(request: ExpansionRequest) -> Answer<Expansion> {
        ADAPTER.expand(request)
    }
}

impl SchemaAdapter for Plugin {
    fn detect(base: &Value, hints: &Hints) -> Detection {
        ADAPTER.detect(base, hints)
    }

    fn assemble(request: AssemblyRequest) -> Answer<Assembly> {
        ADAPTER.assemble(request)
    }
}

llsd_adapter_sdk::export!(Plugin as schema - adapter);

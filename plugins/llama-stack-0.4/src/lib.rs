//! The schema adapter for llama-stack 0.4, and 0.3.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Detection, ProviderPack, SchemaAdapter};
use llsd_dialects::{Adapter, LLAMA_STACK_0_3, LLAMA_STACK_0_4};

const ADAPTER: Adapter = Adapter {
    name: "llama-stack-0.4",
    version: env!("CARGO_PKG_VERSION"),
    dialects: &[&LLAMA_STACK_0_4, &LLAMA_STACK_0_3],
};

/// Serves llama-stack 0.4, and 0.3.
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

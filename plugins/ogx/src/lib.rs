//! The schema adapter for ogx 1.x, and 0.8.
//!
//! What it knows stands in `llsd-dialects`; here it becomes a component of its own.
//! It is not built into the operator: it stands for what a third party publishes.

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Detection, ProviderPack, SchemaAdapter};
use llsd_dialects::{Adapter, OGX_0_8, OGX_1_0};

const ADAPTER: Adapter = Adapter {
    name: "ogx",
    version: env!("CARGO_PKG_VERSION"),
    dialects: &[&OGX_1_0, &OGX_0_8],
};

/// Serves ogx 1.x, and 0.8.
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

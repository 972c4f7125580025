//! An example of an adapter that a third party publishes: for the dialect of its own server.
//!
//! Acme builds its server from ogx 1.x and releases it under its own name. Its releases have the number of
//! the year, so that they are not taken for releases of ogx. The file has the layout of ogx/1.0, so the code
//! is that of the ogx adapter. Its images have the label `io.llamastack.config.schema: acme/1.0`, because
//! nothing in the file tells the two servers apart.
//!
//! It lists no capabilities, as an adapter that was written for version 1.0 of the contract: the host
//! rejects fields that were added later.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Detection, Diagnostic, ProviderPack, SchemaAdapter};
use llsd_dialects::{Adapter, OGX_1_0};

const PRODUCT: &str = "acme";
const SCHEMA: &str = "acme/1.0";
const FIRST_RELEASE: &str = "2026.1.0";
/// The dialect whose code is used.
const BUILT_FROM: &str = "ogx/1.0";
/// The label that states the dialect of an image.
const LABEL: &str = "io.llamastack.config.schema";

const ADAPTER: Adapter = Adapter {
    name: "example-adapter",
    version: env!("CARGO_PKG_VERSION"),
    dialects: &[&OGX_1_0],
};

/// Serves Acme's server.
#[derive(Debug)]
pub struct Plugin;

impl ProviderPack for Plugin {
    fn describe() -> Description {
        let mut description = ADAPTER.describe();
        description.vendor = "Acme (an example)".to_owned();
        description.capabilities = Vec::new();
        for schema in &mut description.schemas {
            schema.id = SCHEMA.to_owned();
            schema.product = PRODUCT.to_owned();
            schema.from = FIRST_RELEASE.to_owned();
        }
        description.apis = renamed(description.apis);
        description.providers = renamed(description.providers);
        description
    }

    fn expand(mut request: ExpansionRequest) -> Answer<Expansion> {
        request.schema = own(&request.schema, &request.path)?;
        ADAPTER.expand(request)
    }
}

impl SchemaAdapter for Plugin {
    fn detect(_base: &Value, hints: &Hints) -> Detection {
        let label = || hints.labels.get(LABEL).map(String::as_str);
        match hints.schema.as_deref().or_else(label) {
            Some(SCHEMA) => Detection::One(SCHEMA.to_owned()),
            _ => Detection::None,
        }
    }

    fn assemble(mut request: AssemblyRequest) -> Answer<Assembly> {
        request.schema = own(&request.schema, "")?;
        ADAPTER.assemble(request)
    }
}

/// The dialect that the shared code knows.
fn own(schema: &str, field: &str) -> Result<String, Vec<Diagnostic>> {
    if schema == SCHEMA {
        return Ok(BUILT_FROM.to_owned());
    }
    let problem = format!("{} does not serve the schema {schema:?}", ADAPTER.name);
    let fix = format!("use {SCHEMA}");
    Err(vec![Diagnostic::error(
        "unsupported-schema",
        field,
        problem,
        fix,
    )])
}

/// What is known about the dialect, under its own name.
fn renamed<T>(by_schema: BTreeMap<String, T>) -> BTreeMap<String, T> {
    let values = by_schema.into_values();
    values.map(|value| (SCHEMA.to_owned(), value)).collect()
}

llsd_adapter_sdk::export!(Plugin as schema - adapter);

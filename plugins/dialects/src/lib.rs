//! The configuration formats of LlamaStack and OGX releases: the code and data that our adapters share.
//!
//! A [`Dialect`] describes the layout of the file for a range of releases: storage, resources,
//! variables. The catalogue, one slice per release, lists the keys of each provider type. The code is
//! the same for all dialects: an [`Adapter`] is a name and a list of dialects, and implements the four
//! functions of the contract.
//!
//! Nothing here depends on WebAssembly: a plugin crate names its dialects and exports them.

#![allow(
    long_running_const_eval,
    reason = "catalogues are merged and indexed when an adapter is compiled"
)]

mod apis;
mod assemble;
mod catalog;
mod describe;
mod detect;
mod dialects;
mod endpoint;
mod env;
mod expand;
mod layout;
mod names;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Answer, Detection, Diagnostic};

pub use dialects::*;
pub use layout::Dialect;

/// Implements the contract's four functions for a type, with an [`Adapter`].
#[macro_export]
macro_rules! implement_adapter {
    ($plugin:ident, $adapter:expr) => {
        const ADAPTER: $crate::Adapter = $adapter;

        impl ::llsd_adapter_sdk::ProviderPack for $plugin {
            fn describe() -> ::llsd_adapter_sdk::documents::Description {
                ADAPTER.describe()
            }

            fn expand(
                request: ::llsd_adapter_sdk::documents::ExpansionRequest,
            ) -> ::llsd_adapter_sdk::Answer<::llsd_adapter_sdk::documents::Expansion> {
                ADAPTER.expand(request)
            }
        }

        impl ::llsd_adapter_sdk::SchemaAdapter for $plugin {
            fn detect(
                base: &::llsd_adapter_sdk::serde_json::Value,
                hints: &::llsd_adapter_sdk::documents::Hints,
            ) -> ::llsd_adapter_sdk::Detection {
                ADAPTER.detect(base, hints)
            }

            fn assemble(
                request: ::llsd_adapter_sdk::documents::AssemblyRequest,
            ) -> ::llsd_adapter_sdk::Answer<::llsd_adapter_sdk::documents::Assembly> {
                ADAPTER.assemble(request)
            }
        }
    };
}

/// A schema adapter: its name and version, and the dialects it serves.
#[derive(Debug)]
pub struct Adapter {
    /// Short name, for example `llama-stack-0.7`.
    pub name: &'static str,
    /// Semantic version of the plugin itself.
    pub version: &'static str,
    /// The dialects served, newest first.
    pub dialects: &'static [&'static Dialect],
}

impl Adapter {
    /// `describe`: the dialects with their APIs and provider types.
    pub fn describe(&self) -> Description {
        describe::describe(self)
    }

    /// `detect`: by a hint if there is one, by the keys of the base otherwise.
    pub fn detect(&self, base: &Value, hints: &Hints) -> Detection {
        detect::detect(self.dialects, base, hints)
    }

    /// `expand`: one provider entry, with the type and the keys that the release reads.
    pub fn expand(&self, request: ExpansionRequest) -> Answer<Expansion> {
        let dialect = self
            .dialect(&request.schema, &request.path)
            .map_err(|problem| vec![problem])?;
        expand::expand(dialect, request)
    }

    /// `assemble`: the whole file.
    pub fn assemble(&self, request: AssemblyRequest) -> Answer<Assembly> {
        let dialect = self
            .dialect(&request.schema, "")
            .map_err(|problem| vec![problem])?;
        assemble::assemble(dialect, request)
    }

    fn dialect(&self, schema: &str, field: &str) -> Result<&'static Dialect, Diagnostic> {
        self.dialects
            .iter()
            .find(|dialect| dialect.id == schema)
            .copied()
            .ok_or_else(|| {
                let served: Vec<_> = self.dialects.iter().map(|dialect| dialect.id).collect();
                Diagnostic::error(
                    "unsupported-schema",
                    field,
                    format!("{} does not serve the schema {schema:?}", self.name),
                    format!("use one of: {}", served.join(", ")),
                )
            })
    }
}

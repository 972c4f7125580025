//! The two traits a plugin author implements, one for each world of the contract.

use crate::diagnostic::Answer;
use crate::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};
use serde_json::Value;

/// A plugin that expands provider entries: the `provider-pack` world, and half of a schema adapter.
///
/// Every function depends on its arguments alone.
pub trait ProviderPack {
    /// Who this plugin is and what it serves. Constant.
    fn describe() -> Description;

    /// One provider entry of the resource to one provider entry of the server's file.
    fn expand(request: ExpansionRequest) -> Answer<Expansion>;
}

/// A plugin that knows whole dialects: the `schema-adapter` world.
pub trait SchemaAdapter: ProviderPack {
    /// Which schema is this base written in? Must not guess.
    fn detect(base: &Value, hints: &Hints) -> Detection;

    /// The complete file, and what it needs around it.
    fn assemble(request: AssemblyRequest) -> Answer<Assembly>;
}

/// What `detect` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detection {
    /// Exactly this schema.
    One(String),
    /// One of these; the base does not say which.
    OneOf(Vec<String>),
    /// None of the schemas served.
    None,
}

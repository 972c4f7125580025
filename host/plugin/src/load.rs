//! From bytes to a plugin: the load rules, in order, each with its own error.
//!
//! A matching export name is not a compatible plugin: a record with one more field binds and fails
//! later. So loading instantiates the component once and asks it to describe itself, under the same
//! limits as any other call.

use llsd_adapter_sdk::documents::{
    AssemblyRequest, Base, Description, Document, ExpansionRequest, Hints,
};
use llsd_render::adapter::FaultKind;
use wasmtime::Engine;
use wasmtime::component::{self, Linker};

use crate::answer::{self, Typed};
use crate::bindings::v1_0::{provider_pack, schema_adapter};
use crate::call::Bound;
use crate::compile;
use crate::engine::Sandbox;
use crate::inspect::{CONTRACT, World};
use crate::limits::{Limits, Meter};
use crate::request::Request;

/// Why bytes are no plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Larger than granted.
    #[error(
        "the component has {size} bytes and {granted} are granted; make it smaller or grant more"
    )]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        granted: usize,
    },
    /// Machine code, which nobody can check.
    #[error(
        "these bytes are precompiled machine code, which cannot be checked; publish the WebAssembly component itself"
    )]
    Precompiled,
    /// A core module.
    #[error(
        "this is a core WebAssembly module and not a component; build it with `llsd plugin build` or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Something else.
    #[error("these bytes are no WebAssembly; check that the right file was published")]
    NotWasm,
    /// Broken.
    #[error("the component is not valid: {0}; build it again")]
    Malformed(String),
    /// A feature that a pure function does not need.
    #[error(
        "the component uses a WebAssembly feature that plugins may not use: {0}; build it for plain `wasm32-unknown-unknown`"
    )]
    Feature(String),
    /// Imports something callable.
    #[error("the component imports {}, and a plugin may import nothing that can be called; build it for `wasm32-unknown-unknown` instead of a WASI target", .0.join(", "))]
    Imports(Vec<String>),
    /// Another version of the contract.
    #[error(
        "the component speaks version {found} of the contract and this host speaks {CONTRACT}; use a plugin and a host that share a version"
    )]
    WrongContract {
        /// The version that it exports.
        found: String,
    },
    /// Not one of our worlds.
    #[error("the component exports {}, which makes up neither the world schema-adapter nor provider-pack; name your adapter in `llsd_adapter_sdk::export!`", list(.found))]
    WrongWorld {
        /// What it exports.
        found: Vec<String>,
    },
    /// Could not be compiled.
    #[error("the component could not be compiled")]
    Compile(#[from] compile::CompileError),
    /// The types of its functions differ from the contract's.
    #[error(
        "the component's functions do not have the types of the contract: {0}; build it against the published WIT without changing a record"
    )]
    Incompatible(String),
    /// `describe` failed.
    #[error("describe {0}")]
    Describe(FaultKind),
    /// The description cannot be used.
    #[error("the plugin's description {0}; correct what its `describe` returns")]
    Description(String),
    /// Does not understand what we send.
    #[error(
        "the plugin does not understand documents of shape {0:?}, which this host sends; use a newer plugin, or list the shape in its description"
    )]
    MissingShape(&'static str),
}

impl LoadError {
    /// A stable word for metrics and condition reasons.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "TooLarge",
            Self::Precompiled => "Precompiled",
            Self::CoreModule => "CoreModule",
            Self::NotWasm => "NotWasm",
            Self::Malformed(_) => "Malformed",
            Self::Feature(_) => "ForbiddenFeature",
            Self::Imports(_) => "ForbiddenImports",
            Self::WrongContract { .. } => "WrongContract",
            Self::WrongWorld { .. } => "WrongWorld",
            Self::Compile(_) => "CompileFailed",
            Self::Incompatible(_) => "Incompatible",
            Self::Describe(_) => "DescribeFailed",
            Self::Description(_) | Self::MissingShape(_) => "BadDescription",
        }
    }
}

/// Binds a compiled component to its world, with nothing to import.
pub(crate) fn bind(
    engine: &Engine,
    component: &component::Component,
    world: World,
) -> Result<Bound, LoadError> {
    let incompatible = |error: wasmtime::Error| LoadError::Incompatible(chain(&error));
    let pre = Linker::<Meter>::new(engine)
        .instantiate_pre(component)
        .map_err(incompatible)?;
    Ok(match world {
        World::SchemaAdapter => {
            Bound::SchemaAdapter(schema_adapter::SchemaAdapterPre::new(pre).map_err(incompatible)?)
        }
        World::ProviderPack => {
            Bound::ProviderPack(provider_pack::ProviderPackPre::new(pre).map_err(incompatible)?)
        }
    })
}

/// Instantiates once and asks for the description.
pub(crate) fn describe(
    bound: &Bound,
    sandbox: &Sandbox,
    limits: &Limits,
) -> Result<Description, LoadError> {
    bound.check(sandbox, limits)?;
    let ran = bound.run(sandbox, limits, &Request::Describe).result;
    let typed = ran
        .and_then(|raw| answer::check(raw, limits))
        .and_then(|raw| answer::read(&Request::Describe, &raw, None))
        .map_err(LoadError::Describe)?;
    match typed {
        Typed::Description(description) => Ok(description),
        _ => Err(LoadError::Description("is no description".into())),
    }
}

/// Checks that a description can be used and that the plugin understands what we send.
pub(crate) fn check_description(description: &Description, world: World) -> Result<(), LoadError> {
    let bad = |what: String| Err(LoadError::Description(what));
    let Description {
        name,
        version,
        vendor: _,
        shapes,
        schemas,
        apis,
        providers,
    } = description;
    let is_word = |text: &str| {
        !text.is_empty()
            && text.len() <= 63
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._+".contains(c))
    };
    if !is_word(name) {
        return bad(format!(
            "has the name {name:?}, which is not made of 1 to 63 letters, digits, '-', '.', '_' or '+'"
        ));
    }
    if !is_word(version) {
        return bad(format!(
            "has the version {version:?}, which is not made of 1 to 63 letters, digits, '-', '.', '_' or '+'"
        ));
    }
    if schemas.is_empty() {
        return bad("names no schema".into());
    }
    for (number, schema) in schemas.iter().enumerate() {
        let is_id = schema.id.split('/').count() == 2 && schema.id.split('/').all(is_word);
        if !is_id {
            return bad(format!(
                "names the schema {:?}, which is not <product>/<release>",
                schema.id
            ));
        }
        if schemas[..number].iter().any(|other| other.id == schema.id) {
            return bad(format!("names the schema {:?} twice", schema.id));
        }
    }
    let stranger = apis
        .keys()
        .chain(providers.keys())
        .find(|id| !schemas.iter().any(|schema| schema.id == **id));
    if let Some(id) = stranger {
        return bad(format!(
            "has APIs or providers of the schema {id:?}, which it does not name"
        ));
    }
    let sent: &[&'static str] = match world {
        World::SchemaAdapter => &[
            Base::SHAPE,
            Hints::SHAPE,
            ExpansionRequest::SHAPE,
            AssemblyRequest::SHAPE,
        ],
        World::ProviderPack => &[ExpansionRequest::SHAPE],
    };
    match sent
        .iter()
        .find(|shape| !shapes.iter().any(|known| known == *shape))
    {
        Some(shape) => Err(LoadError::MissingShape(shape)),
        None => Ok(()),
    }
}

/// The messages of an error and its causes, on one line.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    answer::escaped(&parts.join(": ")).into_owned()
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.join(", ")
    }
}

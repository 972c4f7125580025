//! The load rules: the checks that a component must pass to become a plugin.
//!
//! Export names alone do not prove compatibility: a record with an additional field binds and fails
//! later. So loading instantiates the component once and calls `describe`, with the same limits as
//! any other call.

use std::cmp::Ordering;
use std::fmt;

use llsd_adapter_sdk::documents::{
    Assembly, AssemblyRequest, Base, Description, Document, Expansion, ExpansionRequest, Hints,
    ServedSchema,
};
use llsd_api::escape_line;
use llsd_api::schema_plugin::{
    MAX_IDENTIFIER_BYTES, MAX_SCHEMA_ID_BYTES, MAX_SCHEMAS, MAX_VENDOR_BYTES,
};
use llsd_render::adapter::FaultKind;
use wasmtime::Engine;
use wasmtime::component::{self, Linker};

use crate::bindings::v1_0::{provider_pack, schema_adapter};
use crate::call::BoundComponent;
use crate::compile;
use crate::engine::Sandbox;
use crate::inspect::{CONTRACT, MAJOR, World};
use crate::limits::{Limits, Meter};
use crate::output::{self, TypedOutput};
use crate::request::Request;

/// The load rule that a component violates.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The component is too large.
    #[error(
        "the component has {size} bytes and exceeds the limit of {limit}; make it smaller, or raise spec.limits.component of the SchemaPlugin (component in the file of --limits)"
    )]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Machine code, which cannot be validated.
    #[error(
        "the file is precompiled machine code, which cannot be validated; publish the WebAssembly component instead"
    )]
    Precompiled,
    /// A core module.
    #[error(
        "the file is a core WebAssembly module, not a component; build it with `llsd plugin build`, or convert it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Not WebAssembly.
    #[error("the file is not WebAssembly; check that you published the right file")]
    NotWasm,
    /// The component does not validate.
    #[error("the component is invalid: {0}; rebuild it")]
    Malformed(String),
    /// The component has too many or too deeply nested parts.
    #[error("the component has more than {limit} {what}; make it simpler")]
    TooComplex {
        /// What there are too many of.
        what: String,
        /// The limit.
        limit: usize,
    },
    /// A WebAssembly feature that the sandbox does not allow.
    #[error(
        "the component uses a WebAssembly feature that plugins must not use: {0}; build it for `wasm32-unknown-unknown` without additional target features"
    )]
    Feature(String),
    /// An import that can be called.
    #[error("the component imports {}, but plugins must not import functions; build it for `wasm32-unknown-unknown` instead of a WASI target", .0.join(", "))]
    Imports(Vec<String>),
    /// Another version of the contract.
    #[error("the component uses version {found} of the contract, but this host supports {CONTRACT}; {}", contract_fix(.found))]
    WrongContract {
        /// The version that it exports.
        found: String,
    },
    /// The exports match no world of the contract.
    #[error("the component exports {}, which matches neither world of the contract (schema-adapter, provider-pack); export your adapter with `llsd_adapter_sdk::export!`", list(.found))]
    WrongWorld {
        /// What it exports.
        found: Vec<String>,
    },
    /// Compiling failed.
    #[error("failed to compile the component")]
    Compile(#[from] compile::CompileError),
    /// The types of its functions differ from the contract.
    #[error(
        "the types of the component's functions differ from the contract: {0}; build it against the published WIT without changing a record"
    )]
    Incompatible(String),
    /// `describe` failed.
    #[error("describe {0}")]
    Describe(FaultKind),
    /// The description is invalid.
    #[error("the plugin's description {0}; fix the value that `describe` returns")]
    Description(String),
    /// The plugin does not accept a shape that the host sends.
    #[error(
        "the plugin's description does not list the shape {shape:?}, which this operator sends; {older}"
    )]
    MissingShape {
        /// The shape.
        shape: &'static str,
        /// What to do.
        older: OlderSide,
    },
    /// The plugin returns a shape that the host does not read.
    #[error(
        "the plugin returns documents of the shape {returned:?}, and this operator reads {read:?}; {older}"
    )]
    OtherOutput {
        /// The shape that the plugin declares.
        returned: String,
        /// The shape that the host reads.
        read: &'static str,
        /// What to do.
        older: OlderSide,
    },
}

/// The side that must be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSide {
    /// The plugin was made for a newer contract.
    Operator,
    /// The plugin was made for an older contract.
    Plugin,
}

impl fmt::Display for OlderSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "use a newer operator, or an older version of the plugin",
            Self::Plugin => {
                "use a newer version of the plugin, or add the shape to its description"
            }
        })
    }
}

impl LoadError {
    /// A stable identifier for metrics and condition reasons.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "TooLarge",
            Self::Precompiled => "Precompiled",
            Self::CoreModule => "CoreModule",
            Self::NotWasm => "NotWasm",
            Self::Malformed(_) => "Malformed",
            Self::TooComplex { .. } => "TooComplex",
            Self::Feature(_) => "ForbiddenFeature",
            Self::Imports(_) => "ForbiddenImports",
            Self::WrongContract { .. } => "WrongContract",
            Self::WrongWorld { .. } => "WrongWorld",
            Self::Compile(_) => "CompileFailed",
            Self::Incompatible(_) => "Incompatible",
            Self::Describe(_) => "DescribeFailed",
            Self::Description(_) | Self::MissingShape { .. } | Self::OtherOutput { .. } => {
                "BadDescription"
            }
        }
    }
}

/// Which side is older, and must be updated.
fn contract_fix(found: &str) -> &'static str {
    let major = found
        .split('.')
        .next()
        .and_then(|part| part.parse::<u64>().ok());
    match major.map(|major| major.cmp(&MAJOR)) {
        Some(Ordering::Greater) => {
            "the plugin is newer: update the operator and llsd, or use an older version of the plugin"
        }
        Some(Ordering::Less) => "the plugin is older: use a newer version of the plugin",
        Some(Ordering::Equal) => {
            "use a version of the plugin that is built for a released version of the contract"
        }
        None => "build the plugin with the published WIT",
    }
}

/// Binds a compiled component to its world, with an empty linker.
pub(crate) fn bind(
    engine: &Engine,
    component: &component::Component,
    world: World,
) -> Result<BoundComponent, LoadError> {
    let incompatible = |error: wasmtime::Error| LoadError::Incompatible(error_chain(&error));
    let pre = Linker::<Meter>::new(engine)
        .instantiate_pre(component)
        .map_err(incompatible)?;
    Ok(match world {
        World::SchemaAdapter => BoundComponent::SchemaAdapter(
            schema_adapter::SchemaAdapterPre::new(pre).map_err(incompatible)?,
        ),
        World::ProviderPack => BoundComponent::ProviderPack(
            provider_pack::ProviderPackPre::new(pre).map_err(incompatible)?,
        ),
    })
}

/// Instantiates the component once and calls `describe`.
pub(crate) fn describe(
    bound: &BoundComponent,
    sandbox: &Sandbox,
    limits: &Limits,
) -> Result<Description, LoadError> {
    bound.check(sandbox, limits)?;
    let result = bound.run(sandbox, limits, &Request::Describe).result;
    let typed = result
        .and_then(|raw| output::check(raw, limits))
        .and_then(|raw| output::parse(&Request::Describe, &raw, None))
        .map_err(LoadError::Describe)?;
    match typed {
        TypedOutput::Description(description) => Ok(description),
        _ => Err(LoadError::Description("has the wrong type".into())),
    }
}

/// Checks the names and schemas of a description, that it lists every shape that the host sends, and that the
/// shapes which it returns are those that the host reads.
pub(crate) fn check_description(description: &Description, world: World) -> Result<(), LoadError> {
    let Description {
        name,
        version,
        vendor,
        shapes,
        schemas,
        apis,
        providers,
        capabilities,
    } = description;
    if let Some(name) = capabilities.iter().find(|name| !is_identifier(name)) {
        return Err(LoadError::Description(format!(
            "has an invalid capability {:?}, which must have 1 to {MAX_IDENTIFIER_BYTES} letters, digits, '-', '.', '_' or '+'",
            start_of(name)
        )));
    }
    check_identifier("name", name)?;
    check_identifier("version", version)?;
    check_text("vendor", vendor, MAX_VENDOR_BYTES)?;
    check_schema_ids(schemas)?;
    let unlisted = apis
        .keys()
        .chain(providers.keys())
        .find(|id| !schemas.iter().any(|schema| schema.id == **id));
    if let Some(id) = unlisted {
        return Err(LoadError::Description(format!(
            "has APIs or providers for the schema {:?}, which is not in its list of schemas",
            start_of(id)
        )));
    }
    check_shapes(shapes, world)
}

/// A description of the first contract lists no outputs. Then each call is checked, as always.
fn check_shapes(listed: &[String], world: World) -> Result<(), LoadError> {
    for &shape in sent_shapes(world) {
        if !listed.iter().any(|known| known == shape) {
            let older = older_side(shape, &versions(shape, listed));
            return Err(LoadError::MissingShape { shape, older });
        }
    }
    for &read in read_shapes(world) {
        let returned = versions(read, listed);
        if let Some(first) = returned.first()
            && !returned.contains(&read)
        {
            return Err(LoadError::OtherOutput {
                returned: start_of(first).to_owned(),
                read,
                older: older_side(read, &returned),
            });
        }
    }
    Ok(())
}

/// The listed versions of a shape such as `llamastack.io/adapter/expansion/v1`.
fn versions<'a>(shape: &str, listed: &'a [String]) -> Vec<&'a str> {
    let (name, _) = shape.rsplit_once("/v").unwrap_or((shape, ""));
    let is_version = |other: &&str| {
        let version = other
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix("/v"));
        version.is_some_and(|version| version.parse::<u32>().is_ok())
    };
    listed
        .iter()
        .map(String::as_str)
        .filter(is_version)
        .collect()
}

/// A plugin that knows a shape only in a higher version than the host is newer than the host.
fn older_side(own: &str, listed: &[&str]) -> OlderSide {
    let number = |shape: &str| {
        let version = shape.rsplit_once("/v").map(|(_, version)| version);
        version.and_then(|version| version.parse::<u32>().ok())
    };
    match listed.iter().any(|one| number(one) > number(own)) {
        true => OlderSide::Operator,
        false => OlderSide::Plugin,
    }
}

fn check_identifier(field: &str, value: &str) -> Result<(), LoadError> {
    if is_identifier(value) {
        return Ok(());
    }
    Err(LoadError::Description(format!(
        "has an invalid {field} {:?}, which must have 1 to {MAX_IDENTIFIER_BYTES} letters, digits, '-', '.', '_' or '+'",
        start_of(value)
    )))
}

/// Checks a string for people. The status of a `SchemaPlugin` stores it, and commands print it.
fn check_text(field: &str, value: &str, limit: usize) -> Result<(), LoadError> {
    if value.len() <= limit && escape_line(value) == value {
        return Ok(());
    }
    let start = escape_line(&value[..value.floor_char_boundary(80)]).into_owned();
    Err(LoadError::Description(format!(
        "has an invalid {field} {start:?}, which must have at most {limit} bytes and no control characters"
    )))
}

/// Checks the schemas. The limits are those of the status of a `SchemaPlugin`.
fn check_schema_ids(schemas: &[ServedSchema]) -> Result<(), LoadError> {
    if schemas.is_empty() {
        return Err(LoadError::Description("lists no schema".into()));
    }
    if schemas.len() > MAX_SCHEMAS {
        return Err(LoadError::Description(format!(
            "lists {} schemas, more than {MAX_SCHEMAS}",
            schemas.len()
        )));
    }
    for (position, schema) in schemas.iter().enumerate() {
        let id = &schema.id;
        let is_valid = id.len() <= MAX_SCHEMA_ID_BYTES
            && id.split('/').count() == 2
            && id.split('/').all(is_identifier);
        if !is_valid {
            return Err(LoadError::Description(format!(
                "has an invalid schema id {:?}, which must be <product>/<release>",
                start_of(id)
            )));
        }
        check_identifier("product", &schema.product)?;
        check_identifier("release", &schema.from)?;
        if let Some(before) = &schema.before {
            check_identifier("release", before)?;
        }
        if schemas[..position].iter().any(|other| other.id == *id) {
            return Err(LoadError::Description(format!(
                "lists the schema {id:?} twice"
            )));
        }
    }
    Ok(())
}

/// The beginning of a value, for messages.
fn start_of(value: &str) -> &str {
    &value[..value.floor_char_boundary(80)]
}

fn is_identifier(value: &str) -> bool {
    (1..=MAX_IDENTIFIER_BYTES).contains(&value.len())
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._+".contains(c))
}

/// The shapes of the documents that the host sends to a plugin.
fn sent_shapes(world: World) -> &'static [&'static str] {
    match world {
        World::SchemaAdapter => &[
            Base::SHAPE,
            Hints::SHAPE,
            ExpansionRequest::SHAPE,
            AssemblyRequest::SHAPE,
        ],
        World::ProviderPack => &[ExpansionRequest::SHAPE],
    }
}

/// The shapes of the documents that the host reads from a plugin.
fn read_shapes(world: World) -> &'static [&'static str] {
    match world {
        World::SchemaAdapter => &[Expansion::SHAPE, Assembly::SHAPE],
        World::ProviderPack => &[Expansion::SHAPE],
    }
}

/// The messages of an error and its causes, on one line.
pub(crate) fn error_chain(error: &wasmtime::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    escape_line(&parts.join(": ")).into_owned()
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.join(", ")
    }
}

//! Static inspection of a component, without compiling or running it.
//!
//! In: bytes, possibly hostile. Out: their format, imports and exports, and every load rule that they
//! violate, in order. `llsd plugin inspect` prints it, and loading begins with it.

use std::fmt;

use llsd_render::digest;
use wasmtime::Engine;

use crate::limits::Limits;
use crate::load::LoadError;
use crate::structure::{self, Structure};

/// The package of the contract: the prefix of its export names.
const PACKAGE: &str = "llamastack:config-adapter/";

/// The major version of the contract that this host supports. Minor versions only add to it.
pub(crate) const MAJOR: u64 = 1;

/// The versions of the contract that this host supports, for messages.
pub const CONTRACT: &str = "1.x";

/// A world of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Implements one or more schemas.
    SchemaAdapter,
    /// Expands some provider types.
    ProviderPack,
}

impl World {
    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::SchemaAdapter => "schema-adapter",
            Self::ProviderPack => "provider-pack",
        }
    }

    /// The interfaces that it exports.
    fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::SchemaAdapter => &["identity", "detection", "expansion", "assembly"],
            Self::ProviderPack => &["identity", "expansion"],
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A component, which every plugin must be.
    Component,
    /// A core module.
    CoreModule,
    /// Machine code compiled by wasmtime.
    Precompiled,
    /// Not WebAssembly.
    Other,
}

/// The result of an inspection.
#[derive(Debug)]
pub struct Inspection {
    /// The format.
    pub form: Form,
    /// Size in bytes.
    pub size: usize,
    /// `sha256:…` of the bytes, which identifies the plugin.
    pub digest: String,
    /// The world that the exports match; the larger one if they match both.
    pub world: Option<World>,
    /// The version of the contract in the export names.
    pub contract: Option<String>,
    /// Imports that can be called, at any depth. A plugin has none.
    pub imports: Vec<String>,
    /// Imports of types only, which are harmless.
    pub type_imports: Vec<String>,
    /// Names of the exports.
    pub exports: Vec<String>,
    /// Every load rule that the component violates.
    pub problems: Vec<LoadError>,
}

/// Inspects a file in this process. For files from outside, [`Host::inspect`](crate::Host::inspect) does
/// it in a child process with limits.
pub fn inspect(bytes: &[u8], limits: &Limits) -> Inspection {
    let mut inspection = Inspection::of_format(bytes, limits);
    if inspection.problems.is_empty() {
        inspection.add_result(structure::read(bytes));
    }
    inspection
}

impl Inspection {
    /// What the size and the first bytes of a file tell. Takes constant time, except for the digest.
    pub(crate) fn of_format(bytes: &[u8], limits: &Limits) -> Self {
        let mut inspection = Self {
            form: form(bytes),
            size: bytes.len(),
            digest: digest::of(bytes),
            world: None,
            contract: None,
            imports: Vec::new(),
            type_imports: Vec::new(),
            exports: Vec::new(),
            problems: Vec::new(),
        };
        if bytes.len() > limits.component_bytes {
            inspection.problems.push(LoadError::TooLarge {
                size: bytes.len(),
                limit: limits.component_bytes,
            });
            return inspection;
        }
        match inspection.form {
            Form::Component => {}
            Form::CoreModule => inspection.problems.push(LoadError::CoreModule),
            Form::Precompiled => inspection.problems.push(LoadError::Precompiled),
            Form::Other => inspection.problems.push(LoadError::NotWasm),
        }
        inspection
    }

    /// Adds the structure of a component, or why it cannot be read.
    pub(crate) fn add_result(&mut self, result: Result<Structure, LoadError>) {
        match result {
            Ok(structure) => self.add_structure(structure),
            Err(error) => self.problems.push(error),
        }
    }

    /// The world, or the first problem.
    pub(crate) fn into_world(self) -> Result<World, LoadError> {
        match (self.problems.into_iter().next(), self.world) {
            (Some(problem), _) => Err(problem),
            (None, Some(world)) => Ok(world),
            (None, None) => Err(LoadError::WrongWorld {
                found: self.exports,
            }),
        }
    }
}

impl Inspection {
    fn add_structure(&mut self, structure: Structure) {
        let Structure {
            imports,
            type_imports,
            exports,
            forbidden_feature,
        } = structure;
        if let Some(feature) = forbidden_feature {
            self.problems.push(LoadError::Feature(feature));
        }
        let (imports, type_imports, exports) = (
            imports.into_vec(),
            type_imports.into_vec(),
            exports.into_vec(),
        );
        if !imports.is_empty() {
            self.problems.push(LoadError::Imports(imports.clone()));
        }
        let contract = ContractExports::of(&exports);
        self.world = contract.world();
        self.contract = contract.version;
        if self.world.is_none() {
            self.problems.push(match &self.contract {
                Some(found) if !is_supported(found) => LoadError::WrongContract {
                    found: found.clone(),
                },
                _ => LoadError::WrongWorld {
                    found: exports.clone(),
                },
            });
        }
        (self.imports, self.type_imports, self.exports) = (imports, type_imports, exports);
    }
}

/// The interfaces of the contract that a component exports.
struct ContractExports {
    version: Option<String>,
    interfaces: Vec<String>,
}

impl ContractExports {
    /// Prefers a supported version, because a component may export several.
    fn of(exports: &[String]) -> Self {
        let interfaces: Vec<(&str, &str)> = exports
            .iter()
            .filter_map(|name| name.strip_prefix(PACKAGE))
            .filter_map(|name| name.split_once('@'))
            .collect();
        let version = interfaces
            .iter()
            .map(|(_, version)| *version)
            .find(|version| is_supported(version))
            .or_else(|| interfaces.first().map(|(_, version)| *version));
        let supported = interfaces
            .iter()
            .filter(|(_, version)| is_supported(version));
        Self {
            version: version.map(str::to_owned),
            interfaces: supported.map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    fn world(&self) -> Option<World> {
        let has = |world: &World| {
            world
                .interfaces()
                .iter()
                .all(|needed| self.interfaces.iter().any(|name| name == needed))
        };
        [World::SchemaAdapter, World::ProviderPack]
            .into_iter()
            .find(has)
    }
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.');
    let major = parts.next().and_then(|part| part.parse().ok());
    // A pre-release (`1.0.0-rc.1`) matches no version, as in wasmtime.
    major == Some(MAJOR) && parts.count() == 2 && !version.contains('-')
}

fn form(bytes: &[u8]) -> Form {
    if Engine::detect_precompiled(bytes).is_some() {
        Form::Precompiled
    } else if wasmparser::Parser::is_component(bytes) {
        Form::Component
    } else if wasmparser::Parser::is_core_wasm(bytes) {
        Form::CoreModule
    } else {
        Form::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports(names: &[&str]) -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{PACKAGE}{name}"))
            .collect()
    }

    #[test]
    fn minor_versions_of_the_contract_are_supported_and_others_are_not() {
        for version in ["1.0.0", "1.7.3"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["0.9.0", "2.0.0", "1.0.0-rc.1", "1", "x"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    #[test]
    fn additional_exports_are_allowed() {
        let mut names = exports(&["types@1.0.0", "identity@1.0.0", "expansion@1.0.0"]);
        names.push("init".into());
        assert_eq!(
            ContractExports::of(&names).world(),
            Some(World::ProviderPack)
        );
        names.extend(exports(&["detection@1.1.0", "assembly@1.1.0"]));
        assert_eq!(
            ContractExports::of(&names).world(),
            Some(World::SchemaAdapter)
        );
    }

    #[test]
    fn another_major_version_matches_no_world() {
        let contract = ContractExports::of(&exports(&["identity@2.0.0", "expansion@2.0.0"]));
        assert_eq!(
            (contract.world(), contract.version.as_deref()),
            (None, Some("2.0.0"))
        );
    }
}
